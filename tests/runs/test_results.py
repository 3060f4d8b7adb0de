"""results.json: what distinguishes runs, what data they had, and their curves."""

import json

import numpy as np
from mmengine.config import Config

from fedseg.datasets.arrays import ImageArrays, content_checksum
from fedseg.runs.results import curves, dataset_entry, experiment_digest, recipe_of


def config(**changes) -> Config:
    base = {
        "randomness": {"seed": 0},
        "train_cfg": {"max_rounds": 6, "val_interval": 2},
        "train_dataloader": {
            "num_workers": 1,
            "dataset": {"type": "IDDADataset", "data_root": "data/idda"},
        },
        "optim_wrapper": {"optimizer": {"lr": 0.1}},
    }
    made = Config(base)
    made.merge_from_dict(changes)
    return made


def test_seeds_of_an_experiment_share_a_digest_and_others_do_not():
    for same, changes in (
        (True, {"randomness.seed": 3}),
        (True, {"work_dir": "elsewhere"}),
        (True, {"train_dataloader.num_workers": 4}),
        (True, {"train_dataloader.dataset.data_root": "data/other"}),
        (True, {"train_cfg.val_interval": 1}),
        (False, {"train_cfg.max_rounds": 7}),
        (False, {"optim_wrapper.optimizer.lr": 0.2}),
        (False, {"averaging": {"type": "SWA"}}),
        (False, {"train_dataloader.dataset.style": {"type": "LABStyle"}}),
    ):
        found = experiment_digest(config(**changes)) == experiment_digest(config())
        assert found == same, changes


def test_curves_of_the_evaluated_rounds():
    def line(round_, loss, **more):
        return {"round": round_, "loss": loss, "bytes_down": 10, "bytes_up": 5, **more}

    history = [
        line(1, 4.0),
        line(2, 2.0, metrics={"test/accuracy": 30.0}),
        line(3, None),  # no accepted client had a loss
        line(4, None, metrics={"test/accuracy": 40.0, "corrupted/accuracy": 20.0}),
        line(5, 1.0),
    ]
    assert curves(history) == {
        "rounds": [2, 4],
        "bytes": [30, 60],
        "loss": [3.0, None],
        "figures": {"test/accuracy": [30.0, 40.0], "corrupted/accuracy": [None, 20.0]},
    }
    assert curves([]) == {"rounds": [], "bytes": [], "loss": [], "figures": {}}


def test_what_is_known_of_a_data_set():
    images, labels = np.zeros((3, 2, 2, 1), np.uint8), np.array([0, 1, 0])
    dataset = ImageArrays(images, labels, ["a", "b"])
    loader = {
        "dataset": {"type": "ImageArrays", "split": "train"},
        "transforms": [{"type": "Normalize", "mean": (0.5,)}, {"type": print}],
    }
    entry = dataset_entry(dataset, loader)
    assert entry["samples"] == 3 and entry["split"] == "train"
    assert entry["content_sha256"] == content_checksum(images, labels)
    assert entry["split_checksum"] == dataset.split_checksum
    assert entry["steps"][0] == {"type": "Normalize", "mean": [0.5]}
    assert entry["synthetic"] is False and entry["generated"] == [] and entry["style"] is None
    json.dumps(entry)
    assert dataset_entry([1, 2], {"dataset": [1, 2]})["content_sha256"] is None


def test_a_partition_is_recorded_as_its_recipe():
    recipe = {"type": "DirichletPartition", "alpha": 0.05, "num_clients": 100}
    assert recipe_of(recipe) == recipe
    listed = {"type": "FixedPartition", "clients": {"a": [0, 1]}}
    assert recipe_of(listed) == {"type": "FixedPartition"}
    assert recipe_of(print) == {"type": "builtin_function_or_method"}
