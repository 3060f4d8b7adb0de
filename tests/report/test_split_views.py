"""What is read of splits, checked against splits made by hand."""

import json
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
from rich.console import Console

from fedseg.datasets.arrays import write_images
from fedseg.errors import ConfigError, DataError
from fedseg.partition import Split, write_split
from fedseg.report.partition_charts import draw_view
from fedseg.report.partition_view import print_views
from fedseg.report.split_views import pixel_counts, read_views
from fedseg.runner.experiment import load_config

LABELS = np.array([0, 0, 0, 1, 1, 2])

CONFIG = """
model = dict(type="NoSuchModel")
optim_wrapper = dict(type="OptimWrapper", optimizer=dict(type="SGD", lr=1))
client_sampler = dict(type="UniformSampler", clients_per_round=1)
train_cfg = dict(max_rounds=1)
train_dataloader = dict(
    type="ResidentData",
    batch_size=1,
    dataset=dict(type="StoredImages", data_root={root!r}),
    partition=dict(type="FixedPartition", clients=dict(a=[0, 1, 3], b=[4])),
)
val_dataloader = dict(
    test=dict(batch_size=1, dataset=dict(type="StoredImages", data_root={root!r}, split="test")),
    more=dict(batch_size=1, optional=True, dataset=dict(type="StoredImages", data_root="none")),
)
val_evaluator = dict(type="Accuracy")
"""


@pytest.fixture
def prepared(tmp_path) -> Path:
    """A prepared folder of six training and two test images of three classes."""
    images = np.arange(8, dtype=np.uint8)[:, None, None, None] * np.ones((1, 4, 4, 1), np.uint8)
    root = tmp_path / "images"
    test = np.array([2, 2])
    write_images(root, "Toy", ["x", "y", "z"], (images[:6], LABELS), (images[6:], test))
    return root


@pytest.fixture
def config(prepared, tmp_path) -> Path:
    path = tmp_path / "own.py"
    path.write_text(CONFIG.format(root=str(prepared)))
    return path


def printed(*views, width: int = 120) -> list[str]:
    console = Console(width=width, record=True)
    with console.capture() as capture:
        print_views(views, console)
    return [" ".join(line.split()) for line in capture.get().splitlines()]


def test_a_config_gives_classes_a_client(config):
    (view,) = read_views([config])
    assert (view.name, view.kind, view.rows) == ("own", "class", ("x", "y", "z"))
    assert view.statistics.counts.tolist() == [[2, 1, 0], [0, 1, 0]]
    assert view.statistics.sizes.tolist() == [3, 1]
    assert {n: c.tolist() for n, c in view.test_counts.items()} == {"test": [0, 0, 2]}
    (note,) = view.notes  # optional, and not there
    assert "more" in note
    lines = printed(view)
    assert "clients 2" in lines and "samples per client 1 / 2 / 3" in lines and "unused 2" in lines
    assert "classes per client 1 / 1.5 / 2" in lines
    assert "own test 2 1 classes 0" in lines  # of class z, which no client holds


def test_a_data_set_of_files_needs_no_images(small_config, tmp_path):
    shutil.copytree(small_config.parent / "data" / "splits", tmp_path / "splits")
    (view,) = read_views([small_config], [f"data_root={tmp_path}"])
    assert view.kind == "domain" and view.rows == ("T01_CN_A", "T02_CS_A", "T03_HRN_A")
    assert view.statistics.counts.tolist() == [[4, 0, 0], [0, 4, 0]]
    tests = {name: counts.tolist() for name, counts in view.test_counts.items()}
    assert tests == {"unseen": [0, 0, 5], "seen": [2, 2, 0]}
    lines = printed(view)
    assert "small unseen 5 1 domains 0" in lines and "small seen 4 2 domains 2" in lines
    with pytest.raises(DataError, match="missing"):
        read_views([small_config], [f"data_root={tmp_path}"], images=True)


def test_training_images_in_a_test_set_are_told(config, small_config):
    (view,) = read_views([config], ["val_dataloader.test.dataset.split=train"])
    assert "own: 6 images of test set 'test' are training images" in view.notes
    (apart,) = read_views([small_config])
    assert not apart.notes
    seen = "val_dataloader.seen.dataset"
    whole = load_config(small_config).train_dataloader.dataset.split
    (view,) = read_views([small_config], [f"{seen}.split={whole}", f"{seen}.users=None"])
    assert view.notes == ("small: 8 images of test set 'seen' are training images",)


def test_held_out_images_are_a_test_set(small_config):
    options = ["train_dataloader.partition.holdout=0.25", "val_dataloader.seen=None"]
    (view,) = read_views([small_config], options)
    assert view.statistics.counts.tolist() == [[3, 0, 0], [0, 3, 0]]
    assert view.statistics.unused == 0
    assert view.tests == {"unseen": 5, "clients": 2}
    assert view.test_counts["clients"].tolist() == [1, 1, 0]


def test_pixels_are_counted_by_class(small_config):
    (view,) = read_views([small_config], images=True)
    counts = pixel_counts(view)
    assert counts.shape == (2, 16)
    assert draw_view(view, counts).axes[1].get_ylabel() == "pixels"
    root = small_config.parent / "data" / "IDDAsmall"
    # raw ids of the rendered scenes: 20 is sky, 1 building, 7 road; 0 is ignored
    for row, domain in enumerate(("T01_CN_A", "T02_CS_A")):
        files = (root / domain / "Semantic" / f"{i}_{domain}.png" for i in range(4))
        raw = [cv2.imread(str(file), cv2.IMREAD_UNCHANGED) for file in files]
        for train_id, raw_id in ((10, 20), (2, 1), (0, 7)):
            assert counts[row, train_id] == sum(int((image == raw_id).sum()) for image in raw)
        assert counts[row].sum() == sum(int((image != 0).sum()) for image in raw)


def test_a_file_of_indices_takes_labels_from_its_folder(prepared):
    folder = prepared / "splits"
    folder.mkdir()
    (folder / "two.json").write_text(json.dumps({"a": [0, 5], "b": [3]}))
    (folder / "two.note.json").write_text("{}")
    (view,) = read_views(sorted(folder.iterdir()))
    assert view.name == "two" and view.kind == "class"
    assert view.statistics.counts.tolist() == [[1, 0, 1], [0, 1, 0]]
    assert view.tests["test"] == 2


def test_indices_alone_have_sizes_only(tmp_path):
    path = tmp_path / "a" / "indices.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"a": [0, 9], "b": [4]}))
    (view,) = read_views([path])
    assert view.kind is None and view.statistics.unused == 7
    assert "indices.json" in view.notes[0]
    lines = printed(view)
    assert "samples per client 1 / 1.5 / 2" in lines
    assert not any("classes per client" in line for line in lines)


def test_split_folders_have_the_domains_of_their_paths(small_config, tmp_path):
    splits = tmp_path / "splits"
    shutil.copytree(small_config.parent / "data" / "splits", splits)
    (splits / "split.json").write_text("{}")  # a prepare tool's note on both parts
    (view,) = read_views([splits])
    again = read_views([splits / "train", splits / "train" / "clients.json"])
    for one in (view, *again):
        assert one.statistics.counts.tolist() == [[4, 0, 0], [0, 4, 0]]
    assert [one.name for one in again] == [view.name, f"{view.name}_2"]
    assert {n: c.tolist() for n, c in view.test_counts.items()} == {
        "test_user_diff_domain": [0, 0, 5],
        "test_user_same_domain": [2, 2, 0],
    }
    pairs = {
        "city": ("train/ulm/ulm_0_0_leftImg8bit.png", "train/ulm/ulm_0_0_gtFine_labelIds.png"),
        "camvid": ("train/0006R0_f00930.png", "trainannot/0006R0_f00930.png"),
        "else": ("a.png", "b.png"),
    }
    found = {}
    for name, pair in pairs.items():
        write_split(tmp_path / name, Split({"client": [pair]}))
        (one,) = read_views([tmp_path / name])
        found[name] = one.rows
        assert bool(one.notes) == (name == "else")
    assert found == {"city": ("ulm",), "camvid": ("0006R0",), "else": ()}


NO_SPLITS = {
    "list.json": "[1]",
    "broken.json": "{",
    "far.json": '{"a": [0, "b"]}',
    "below.json": '{"a": [0, -1]}',
    "huge.json": json.dumps({"a": [10**15]}),
    "twice.json": '{"a": [0, 7], "b": [7]}',
    "wrong.py": "model = 1",
}


@pytest.mark.parametrize("name", [*NO_SPLITS, "none.json", "none.py", "empty"])
def test_what_is_no_split_is_refused(tmp_path, name):
    (tmp_path / "empty").mkdir()
    if name in NO_SPLITS:
        (tmp_path / name).write_text(NO_SPLITS[name])
    field = "train_dataloader" if name == "wrong.py" else name
    with pytest.raises((ConfigError, DataError), match=field):
        read_views([tmp_path / name])


def test_arguments_that_name_or_change_nothing_are_refused(tmp_path, config):
    (tmp_path / "only.note.json").write_text("{}")
    with pytest.raises(DataError, match="only notes"):
        read_views([tmp_path / "only.note.json"])
    with pytest.raises(ConfigError, match="--cfg-options"):
        read_views([tmp_path / "only.note.json"], ["seed=1"])
    with pytest.raises(ConfigError, match=r"train_dataloader\.dataset"):
        read_views([config], ["train_dataloader.dataset.type=Nothing"])
