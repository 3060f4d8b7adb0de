"""Which classes label maps show, read once."""

from prepare_tools import write_pair

from fedseg.data_prep.split_rules import presence
from fedseg.datasets import IDDADataset


def test_every_label_map_is_read_once(tmp_path):
    samples = [("1.jpg", "1.png"), ("2.jpg", "2.png")]
    write_pair(tmp_path, tmp_path, samples[0], ids=(7, 20))
    write_pair(tmp_path, tmp_path, samples[1], ids=(6, 3, 40))
    present = presence(tmp_path, IDDADataset.label_ids)

    def classes(chosen):
        return [[IDDADataset.classes[c] for c in row.nonzero()[0]] for row in present(chosen)]

    assert classes(samples[1:]) == [["road"]]
    (tmp_path / "2.png").unlink()
    assert classes(samples) == [["road", "sky"], ["road"]]
