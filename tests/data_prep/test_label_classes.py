"""Which classes label maps show, read once."""

import json

from prepare_tools import write_pair

from data_prep.label_classes import classes_present
from fedseg.datasets import IDDADataset


def test_classes_present_are_kept_until_a_label_changes(tmp_path):
    samples = [("1.jpg", "1.png"), ("2.jpg", "2.png")]
    write_pair(tmp_path, tmp_path, samples[0], ids=(7, 20))
    write_pair(tmp_path, tmp_path, samples[1], ids=(6, 3, 40))
    cache = tmp_path / "splits" / "label_classes.json"

    def classes():
        found = classes_present(tmp_path, ["1.png", "2.png"], IDDADataset.label_ids, cache)
        return [[IDDADataset.classes[c] for c in row.nonzero()[0]] for row in found]

    assert classes() == [["road", "sky"], ["road"]]
    kept = json.loads(cache.read_text())
    kept["1.png"][1] = [8]
    cache.write_text(json.dumps(kept))
    assert classes() == [["sidewalk"], ["road"]]
    write_pair(tmp_path, tmp_path, samples[0], ids=(7, 20, 16, 4))
    assert classes() == [["road", "sky", "person", "bicycle"], ["road"]]
    cache.write_text("{")
    assert classes()[1] == ["road"]
