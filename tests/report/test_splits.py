"""What is read of splits, checked against splits made by hand."""

import json
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest

from fedseg.datasets.arrays import write_images
from fedseg.errors import ConfigError, DataError
from fedseg.partition import Split, write_split
from fedseg.report.splits import Labels, count_split, mean_distance, read_split_views
from fedseg.report.splits_output import splits_table
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


def described(view) -> dict[str, str]:
    """The column of a split in the table."""
    return splits_table([view])[view.name].to_dict()


def test_counts_by_hand():
    labels = Labels(kind="classes", ids=np.array([0, 0, 1, 1, 1, 1, 2, 2]), names=list("xyzw"))
    clients = {"a": np.array([0, 2, 6]), "b": np.array([4, 3]), "c": np.array([7])}
    view = count_split("toy", clients, labels)
    assert view.counts.to_numpy().tolist() == [[1, 1, 1, 0], [0, 2, 0, 0], [0, 0, 1, 0]]
    assert view.sizes.to_dict() == {"a": 3, "b": 2, "c": 1} and view.unused == 2
    # the whole: 1/4, 1/2, 1/4, 0; the clients' distances 1/6, 1/2, 3/4
    assert view.distance == pytest.approx((1 / 6 + 1 / 2 + 3 / 4) / 3)


def test_distance_of_no_and_of_most_skew():
    assert mean_distance(np.eye(10, dtype=int), np.ones(10)) == pytest.approx(0.9)
    assert mean_distance(np.array([[3, 1], [6, 2], [0, 0]]), np.array([9, 3])) == 0


def test_a_config_gives_classes_a_client(config):
    (view,) = read_split_views([config])
    assert (view.name, view.kind, view.counts.columns.tolist()) == ("own", "classes", list("xyz"))
    assert view.counts.to_numpy().tolist() == [[2, 1, 0], [0, 1, 0]]
    assert view.sizes.to_dict() == {"a": 3, "b": 1}
    assert view.tests.to_numpy().tolist() == [[0, 0, 2]]
    (note,) = view.notes  # optional, and not there
    assert "more" in note
    expected = {
        "clients": "2",
        "samples": "4",
        "unused": "2",
        "samples per client": "1 / 2 / 3",
        "classes": "2",
        "classes per client": "1 / 1.5 / 2",
        "distance": "0.417",
        "test set test": "2 samples; 1 classes, clients have 0 of them",
    }
    assert described(view) == expected


def test_a_data_set_of_files_needs_no_images(small_config, tmp_path):
    shutil.copytree(small_config.parent / "data" / "splits", tmp_path / "splits")
    (view,) = read_split_views([small_config], [f"data_root={tmp_path}"])
    assert view.kind == "domains"
    assert view.counts.columns.tolist() == ["T01_CN_A", "T02_CS_A", "T03_HRN_A"]
    assert view.counts.to_numpy().tolist() == [[4, 0, 0], [0, 4, 0]]
    assert view.tests.loc["unseen"].tolist() == [0, 0, 5]
    assert view.tests.loc["seen"].tolist() == [2, 2, 0]
    column = described(view)
    assert column["test set unseen"] == "5 samples; 1 domains, clients have 0 of them"
    assert column["test set seen"] == "4 samples; 2 domains, clients have 2 of them"
    with pytest.raises(DataError, match="missing"):
        read_split_views([small_config], [f"data_root={tmp_path}"], pixels=True)


def test_training_images_in_a_test_set_are_told(config, small_config):
    (view,) = read_split_views([config], ["val_dataloader.test.dataset.split=train"])
    assert "own: 6 images of test set 'test' are training images" in view.notes
    (apart,) = read_split_views([small_config])
    assert not apart.notes
    seen = "val_dataloader.seen.dataset"
    whole = load_config(small_config).train_dataloader.dataset.split
    (view,) = read_split_views([small_config], [f"{seen}.split={whole}", f"{seen}.users=None"])
    assert view.notes == ("small: 8 images of test set 'seen' are training images",)


def test_held_out_images_are_a_test_set(small_config):
    options = ["train_dataloader.partition.holdout=0.25", "val_dataloader.seen=None"]
    (view,) = read_split_views([small_config], options)
    assert view.counts.to_numpy().tolist() == [[3, 0, 0], [0, 3, 0]]
    assert view.unused == 0
    assert view.test_sizes == {"unseen": 5, "clients": 2}
    assert view.tests.loc["clients"].tolist() == [1, 1, 0]


def test_pixels_are_counted_by_class(small_config):
    (view,) = read_split_views([small_config], pixels=True)
    counts = view.counts.to_numpy()
    assert counts.shape == (2, 16) and view.sizes.tolist() == [4, 4]
    root = small_config.parent / "data" / "IDDAsmall"
    # raw ids of the rendered scenes: 20 is sky, 1 building, 7 road; 0 is ignored
    for row, domain in enumerate(("T01_CN_A", "T02_CS_A")):
        files = (root / domain / "Semantic" / f"{i}_{domain}.png" for i in range(4))
        raw = [cv2.imread(str(file), cv2.IMREAD_UNCHANGED) for file in files]
        for train_id, raw_id in ((10, 20), (2, 1), (0, 7)):
            assert counts[row, train_id] == sum(int((image == raw_id).sum()) for image in raw)
        assert counts[row].sum() == sum(int((image != 0).sum()) for image in raw)


def test_a_split_file_takes_labels_from_its_prepared_folder(prepared):
    folder = prepared / "splits" / "released"
    folder.mkdir(parents=True)
    (folder / "two.json").write_text(json.dumps({"a": [0, 5], "b": [3]}))
    (folder / "two.note.json").write_text("{}")
    (view,) = read_split_views(sorted(folder.iterdir()))
    assert view.name == "two" and view.kind == "classes"
    assert view.counts.to_numpy().tolist() == [[1, 0, 1], [0, 1, 0]]
    assert view.test_sizes == {"test": 2}


def test_prepared_splits_have_the_domains_of_their_paths(small_config, tmp_path):
    splits = tmp_path / "rainy"
    shutil.copytree(small_config.parent / "data" / "splits", splits)
    (splits / "split.json").write_text("{}")  # a prepare tool's note on both parts
    view, again = read_split_views([splits, splits])
    assert view.counts.to_numpy().tolist() == [[4, 0, 0], [0, 4, 0]]
    assert again.name == f"{view.name}_2"
    assert view.tests.loc["test_user_diff_domain"].tolist() == [0, 0, 5]
    assert view.tests.loc["test_user_same_domain"].tolist() == [2, 2, 0]
    pairs = {
        "city": ("train/ulm/ulm_0_0_leftImg8bit.png", "train/ulm/ulm_0_0_gtFine_labelIds.png"),
        "camvid": ("train/0006R0_f00930.png", "trainannot/0006R0_f00930.png"),
        "else": ("a.png", "b.png"),
    }
    domains = {}
    for name, pair in pairs.items():
        write_split(tmp_path / name / "train", Split({"client": [pair]}))
        (view,) = read_split_views([tmp_path / name])
        domains[name] = view.counts.columns.tolist()
        assert bool(view.notes) == (name == "else")
    assert domains == {"city": ["ulm"], "camvid": ["0006R0"], "else": ["all"]}


NO_SPLITS = {
    "list.json": "[1]",
    "broken.json": "{",
    "far.json": '{"a": [0, "b"]}',
    "below.json": '{"a": [0, -1]}',
    "huge.json": json.dumps({"a": [10**15]}),
    "twice.json": '{"a": [0, 5], "b": [5]}',
    "wrong.py": "model = 1",
}


@pytest.mark.parametrize("name", [*NO_SPLITS, "none.json", "none.py", "empty"])
def test_what_is_no_split_is_refused(prepared, name):
    (prepared / "empty").mkdir()
    if name in NO_SPLITS:
        (prepared / name).write_text(NO_SPLITS[name])
    field = "train_dataloader" if name == "wrong.py" else name
    with pytest.raises((ConfigError, DataError), match=field):
        read_split_views([prepared / name])


def test_arguments_that_name_or_change_nothing_are_refused(tmp_path, config):
    (tmp_path / "only.note.json").write_text("{}")
    (tmp_path / "alone.json").write_text('{"a": [0]}')
    with pytest.raises(DataError, match="only notes"):
        read_split_views([tmp_path / "only.note.json"])
    with pytest.raises(DataError, match=r"alone\.json: lies in no prepared folder"):
        read_split_views([tmp_path / "alone.json"])
    with pytest.raises(ConfigError, match="--cfg-options"):
        read_split_views([tmp_path / "alone.json"], ["seed=1"])
    with pytest.raises(ConfigError, match="--pixels"):
        read_split_views([tmp_path / "alone.json"], pixels=True)
    with pytest.raises(ConfigError, match="--pixels"):
        read_split_views([config], pixels=True)
    with pytest.raises(ConfigError, match=r"train_dataloader\.dataset"):
        read_split_views([config], ["train_dataloader.dataset.type=Nothing"])
