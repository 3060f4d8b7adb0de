"""Test images by loader: streamed or resident the same metrics, corrupted ones by hand counting."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import toycls
import toyseg
from mmengine.evaluator import BaseMetric

from fedseg.errors import ConfigError, DataError, MissingDataError
from fedseg.evaluation import CountingMetric
from fedseg.evaluation.sets import EvaluationSet, build_evaluation_set
from fedseg.loaders.partitioned import domains_of

LIKE = torch.zeros(())


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    return toycls.write_data(tmp_path_factory.mktemp("data") / "toy")


def test_images(root: Path, **options) -> dict:
    return {"type": "StoredImages", "data_root": str(root), "split": "test", **options}


test_images.__test__ = False


def corrupted_images(root: Path, **options) -> dict:
    return {"type": "ToyCorrupted", "data_root": str(root), **options}


def evaluation_set(config: dict, name: str = "test", evaluator=None) -> EvaluationSet | None:
    return build_evaluation_set(name, config, evaluator or {"type": "Accuracy"}, "val", LIKE)


def resident(root: Path, **options) -> dict:
    transforms = [toycls.NORMALIZE]
    given = {"type": "ResidentData", "dataset": test_images(root), "transforms": transforms}
    return {**given, "batch_size": 1000, **options}


def corrupted(root: Path, **options) -> dict:
    return resident(root, **{"type": "CorruptedData", "dataset": corrupted_images(root), **options})


def built(tmp_path, root, **changes):
    """A runner that has everything but has trained nothing; its model has random weights."""
    runner = toyseg.runner(toycls.settings(tmp_path, root, **changes))
    runner.build_federation()
    return runner


@pytest.fixture(scope="module")
def trained(root, tmp_path_factory):
    """A runner with a model that is right more often than by chance."""
    config = toycls.settings(
        tmp_path_factory.mktemp("trained"),
        root,
        train_dataloader={"transforms": toycls.CROP_AND_FLIP},
        optim_wrapper=toyseg.PLAIN["optim_wrapper"],
        averaging=None,
        train_cfg={"max_rounds": 12, "local_epochs": 3},
    )
    return toyseg.train(config)


def predicted(runner, test: EvaluationSet | str) -> tuple[dict[str, float], list[int]]:
    """The metrics of a test set, and the prediction of every image."""
    if isinstance(test, str):
        test = next(own for own in runner.val_loop.sets if own.name == test)
    found: dict[int, int] = {}

    def note(own, prefix, indices, predictions):
        assert own is test and prefix == test.name
        found.update(zip(indices, predictions.tolist(), strict=True))

    server = runner.server
    metrics = runner.val_loop.domains.run(server.w, server.buffers, note, [test])
    assert len(found) == len(test.dataset)
    return metrics, [found[i] for i in range(len(found))]


def details_of(runner) -> dict:
    return runner.val_loop.domains.details


# ---------------------------------------------------------------- resident and streaming


PREPROCESSOR = {"type": "ImagePreprocessor", "mean": toycls.MEAN, "std": toycls.STD}


def test_resident_and_streamed_images_have_the_same_metrics(tmp_path, root):
    streamed = {"batch_size": 5, "dataset": test_images(root)}
    streamed_train = {
        "_delete_": True,
        "batch_size": 8,
        "dataset": test_images(root, split="train"),
        "partition": {"type": "FixedPartition", "clients": toycls.partition()},
    }
    one = built(tmp_path / "a", root)
    two = built(
        tmp_path / "b",
        root,
        model={"data_preprocessor": PREPROCESSOR},
        train_dataloader=streamed_train,
        val_dataloader={"_delete_": True, "test": streamed},
    )
    assert torch.equal(one.server.w, two.server.w)
    assert predicted(one, "test") == predicted(two, "test")
    assert details_of(one) == details_of(two)


def test_raw_images_go_through_the_models_preprocessor(tmp_path, root):
    """Without Normalize a resident set gives uint8, as the streaming loader does."""
    one = built(tmp_path / "a", root)
    two = built(
        tmp_path / "b",
        root,
        model={"data_preprocessor": PREPROCESSOR},
        train_dataloader={"transforms": toycls.CROP_AND_FLIP[:2]},
        val_dataloader={"_delete_": True, "test": resident(root, transforms=[])},
    )
    assert predicted(one, "test") == predicted(two, "test")


def test_normalized_twice_is_refused(tmp_path, root):
    runner = built(tmp_path, root, model={"data_preprocessor": PREPROCESSOR})
    with pytest.raises(DataError, match=r"expected uint8 .* got torch\.float32"):
        predicted(runner, "test")


def test_accuracy_by_hand_counting(trained, root):
    metrics, predictions = predicted(trained, "test")
    labels = np.load(root / "test_labels.npy")
    right = np.asarray(predictions) == labels
    assert 40 < 100 * right.mean() < 100, "worth comparing"
    assert metrics == {"test/accuracy": pytest.approx(100 * right.mean(), abs=1e-12)}
    by_class = details_of(trained)["test"]["accuracy_by_class"]
    for i in range(toycls.CLASSES):
        assert by_class[f"class {i}"] == pytest.approx(100 * right[labels == i].mean(), abs=1e-12)


@pytest.mark.parametrize("size", [1, 4, 7, toycls.TEST, 10**6])
def test_metrics_do_not_depend_on_the_batch_size(trained, root, size):
    for name, config in (("test", resident(root)), ("corrupted", corrupted(root))):
        test = evaluation_set({**config, "batch_size": size}, name)
        expected, details = predicted(trained, name), details_of(trained)
        assert predicted(trained, test) == expected
        assert details_of(trained) == details
        assert len(test.plan(np.arange(len(test.dataset)))) <= -(-len(test.dataset) // size)


# ---------------------------------------------------------------- which sets, and when


def test_sets_for_the_end_are_evaluated_at_the_end(tmp_path, root):
    """Three evaluations, the corrupted images in the last one only; tools/test.py always does."""
    config = toycls.run(tmp_path, root, train_cfg={"val_interval": 2})
    metrics = {r["round"]: set(r["metrics"]) for r in toyseg.history(config) if "metrics" in r}
    assert metrics[2] == metrics[4] == {"test/accuracy"}
    expected = {f"corrupted/accuracy_severity_{s}" for s in range(1, 6)}
    assert metrics[6] == metrics[2] | expected | {"corrupted/accuracy"}
    early = Path(config["work_dir"]) / "checkpoints" / "round_000005.pth"
    tested = toyseg.runner({**config, "work_dir": str(tmp_path / "test")}).test(early)
    assert set(tested) == metrics[6]


def test_missing_optional_data_are_left_out_without_a_warning(tmp_path, root, capfd):
    gone = {"corrupted": {"dataset": {"folder": "nowhere"}}}
    config = toycls.settings(
        tmp_path, root, val_dataloader=gone, train_cfg={"max_rounds": 1}, log_level="WARNING"
    )
    runner = toyseg.train(config)
    assert "optional" not in "".join(capfd.readouterr())  # nobody asked for it
    assert runner.val_loop.missing == ["corrupted"]
    assert set(toyseg.history(config)[0]["metrics"]) == {"test/accuracy"}
    assert "skipping optional test set 'corrupted': no data found in" in toyseg.logs(config)
    results = json.loads((Path(config["work_dir"]) / "results.json").read_text())
    assert set(results["final"]) == {"test"} and "test:corrupted" not in results["data"]


def test_missing_data_that_are_not_optional(root, tmp_path):
    missing = corrupted(root, dataset=corrupted_images(root, folder="nowhere"))
    with pytest.raises(MissingDataError, match="nowhere: has no corrupted images"):
        evaluation_set(missing)
    assert evaluation_set({**missing, "optional": True}) is None
    with pytest.raises(MissingDataError):
        evaluation_set({**missing, "optional": False})
    nothing = resident(tmp_path, optional=True)
    assert evaluation_set(nothing) is None


def test_data_that_are_there_but_damaged_are_never_left_out(tmp_path):
    root = toycls.write_data(tmp_path / "toy")
    path = root / "corrupted" / "contrast.npy"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"contrast\.npy: is damaged"):
        evaluation_set(corrupted(root, optional=True))
    path.unlink()  # one of two
    with pytest.raises(DataError, match="contrast missing"):
        evaluation_set(corrupted(root, optional=True))


class Listed(BaseMetric):
    """A metric of a user's own that keeps results of some images only."""

    def process(self, data_batch, data_samples):
        self.results += [int(label) for label in data_batch["data_samples"] if label]

    def compute_metrics(self, results):
        if not sum(results):
            raise DataError("nothing but zeros")
        return {"sum": float(sum(results))}


def test_a_slice_may_have_no_results(root):
    """Workers share an evaluation; not every one has images that a metric keeps."""
    test = evaluation_set(resident(root), evaluator={"type": Listed})
    for labels in ([0, 0], [0, 2], [1, 0]):
        test.process([0, 1], {"data_samples": torch.tensor(labels)}, None)
        test.add(test.take())
    assert test.score() == {"sum": 3.0}
    with pytest.raises(DataError, match=r"^val_dataloader\.\w+\.dataset: nothing but zeros"):
        test.score()


def test_counts_of_several_workers_add_up(root):
    test = evaluation_set(resident(root))
    for labels in ([0, 0, 1], [0, 2, 1], [1, 0, 1]):
        given = {"data_samples": torch.tensor(labels)}
        test.process([0, 1, 2], given, torch.zeros(3, dtype=torch.int64))
        test.add(test.take())
    assert test.score() == {"accuracy": pytest.approx(100 * 4 / 9)}


class OwnCounts(BaseMetric):
    """A metric that keeps what it counts where no other process can take it."""

    total = 0

    def process(self, data_batch, data_samples):
        self.total += len(data_batch["data_samples"])

    def compute_metrics(self, results):
        return {"total": self.total}


def test_counts_of_another_place_cannot_be_shared(root):
    test = evaluation_set(resident(root), evaluator={"type": OwnCounts})
    test.process([0, 1], {"data_samples": torch.tensor([0, 1])}, None)
    assert test.score() == {"total": 2}
    test.add(test.take())
    with pytest.raises(ConfigError, match="OwnCounts: does not keep its counts in results"):
        test.score()


IGNORED = {"type": "IoUMetric", "num_classes": 3, "ignore_index": 0}


def counted_twice(root, other: dict) -> EvaluationSet:
    """A set with two metrics that have counted labels 0 1 2 and predictions 0 1 1."""
    metrics = [{"type": "IoUMetric", "num_classes": 3}, {**IGNORED, **other}]
    test = evaluation_set(resident(root), evaluator=metrics)
    for metric in test.metrics:
        metric.dataset_meta = None
    test.process([0], {"data_samples": torch.tensor([[0, 1, 2]])}, torch.tensor([[0, 1, 1]]))
    return test


def test_metrics_of_one_name_and_two_values(root):
    """Class IoUs by hand: 1, 1/2 and 0; without the pixels of class 0 there is none of it."""
    with pytest.raises(ConfigError, match=r"val_dataloader\.test: IoUMetric gives 'mIoU', and so"):
        counted_twice(root, {}).score()
    assert counted_twice(root, {"ignore_index": 255}).score()["mIoU"] == 50  # the same twice
    for first in ("plain", "other"):
        test = counted_twice(root, {"prefix": "other"})
        if first == "other":
            test.metrics.reverse()
        details, scores = test.details(), test.score()
        assert details[""]["IoU"] == {"0": 100, "1": 50, "2": 0} and scores["mIoU"] == 50
        assert details["other"]["IoU"] == {"0": None, "1": 50, "2": 0}
        assert scores["other/mIoU"] == 25


def test_no_set_at_all(tmp_path, root):
    gone = {"_delete_": True, "test": resident(tmp_path / "nowhere", optional=True)}
    with pytest.raises(ConfigError, match="val_dataloader: no domain has data"):
        built(tmp_path, root, val_dataloader=gone)


def test_the_global_model_beside_the_averaged_one(tmp_path, root):
    config = toycls.settings(tmp_path, root, val_cfg={"evaluate_global": True})
    runner = toyseg.train(config)
    lines = {r["round"]: r["metrics"] for r in toyseg.history(config) if "metrics" in r}
    names = {name.partition("/")[0] for name in lines[6]}
    assert names == {"test", "global:test", "corrupted"}, "the corrupted images once"
    test = [runner.val_loop.sets[0]]
    for prefix, key in (("", "averaged_state_dict"), ("global:", "state_dict")):
        runner.flat.load_state_dict(toyseg.checkpoint(config)[key])
        w, buffers = runner.flat.w.clone(), runner.flat.buffers.clone()
        metrics = runner.val_loop.domains.run(w, buffers, None, test)
        assert metrics == {"test/accuracy": lines[6][f"{prefix}test/accuracy"]}
    results = json.loads((Path(config["work_dir"]) / "results.json").read_text())
    assert "accuracy_by_class" in results["final"]["global:test"]


# ---------------------------------------------------------------- corrupted images


def test_metrics_of_corrupted_images_by_hand_counting(trained, root):
    metrics, predictions = predicted(trained, "corrupted")
    labels = np.load(root / "test_labels.npy")
    right = np.asarray(predictions).reshape(2, 5, toycls.TEST) == labels
    shares = 100 * right.sum(2) / toycls.TEST
    assert len(np.unique(shares)) > 4, "worth comparing"
    expected = {"corrupted/accuracy": shares.mean()}
    for severity in range(1, 6):
        expected[f"corrupted/accuracy_severity_{severity}"] = shares[:, severity - 1].mean()
    assert metrics == {name: pytest.approx(value, abs=1e-12) for name, value in expected.items()}
    details = details_of(trained)["corrupted"]
    assert details["severities"] == [1, 2, 3, 4, 5]
    table = details["corruptions"]
    assert list(table) == list(toycls.CORRUPTIONS)
    for number, name in enumerate(toycls.CORRUPTIONS):
        assert table[name] == pytest.approx(shares[number].tolist(), abs=1e-12)


def test_a_corruption_that_was_never_tested_has_no_accuracy(root):
    test = evaluation_set(corrupted(root))
    tested = [index for group, block in test.blocks.items() if group[1] != 2 for index in block]
    for indices, batch in test.batches([tested], pin_memory=False):
        test.process(indices, batch, batch["data_samples"])  # every prediction is right
    tables = test.details()[""]["corruptions"]
    assert set(map(tuple, tables.values())) == {(100.0, None, 100.0, 100.0, 100.0)}
    scores = test.score()
    assert scores.pop("accuracy") is None and scores.pop("accuracy_severity_2") is None
    assert set(scores.values()) == {100.0}


def test_predictions_are_those_of_the_files(trained, root):
    """Image by image through the model, straight from the .npy files."""
    _, predictions = predicted(trained, "corrupted")
    stacked = [np.load(root / "corrupted" / f"{name}.npy") for name in toycls.CORRUPTIONS]
    inputs = torch.from_numpy((np.concatenate(stacked) / 255 - toycls.MEAN) / toycls.STD)
    with torch.no_grad():
        expected = trained.model(inputs.permute(0, 3, 1, 2).float(), mode="predict")
    assert predictions == expected.tolist()


def test_every_evaluation_counts_anew(trained):
    first, details = predicted(trained, "corrupted"), details_of(trained)
    server, test = trained.server, trained.val_loop.sets[1]
    trained.val_loop.domains.run(-server.w, server.buffers, None, [test])
    assert details_of(trained) != details
    assert predicted(trained, "corrupted") == first
    assert details_of(trained) == details


@pytest.mark.parametrize(
    ("options", "corruptions", "severities"),
    [
        ({"corruptions": ["contrast"]}, ["contrast"], [1, 2, 3, 4, 5]),
        ({"corruptions": ["contrast", "fog"]}, ["fog", "contrast"], [1, 2, 3, 4, 5]),
        ({"severities": [5, 2]}, ["fog", "contrast"], [2, 5]),
        ({"corruptions": "fog", "severities": 3}, ["fog"], [3]),
    ],
)
def test_some_corruptions_and_severities(trained, root, options, corruptions, severities):
    predicted(trained, "corrupted")
    table = details_of(trained)["corrupted"]["corruptions"]
    config = corrupted(root, dataset=corrupted_images(root, **options))
    metrics, _ = predicted(trained, evaluation_set(config, "some"))
    details = details_of(trained)["some"]
    expected = {c: [table[c][s - 1] for s in severities] for c in corruptions}
    assert details == {"corruptions": expected, "severities": severities}
    assert list(details["corruptions"]) == corruptions, "in the official order"
    assert metrics["some/accuracy"] == pytest.approx(np.mean(list(expected.values())))
    assert set(metrics) == {"some/accuracy"} | {f"some/accuracy_severity_{s}" for s in severities}


def test_logits_of_corrupted_images(root):
    test, taken = evaluation_set(corrupted(root)), []
    labels, predictions = torch.tensor([1, 2, 3]), torch.tensor([1, 2, 0])
    for made in (predictions, torch.nn.functional.one_hot(predictions, toycls.CLASSES).float()):
        test.process([0, 1, toycls.TEST], {"data_samples": labels}, made)
        taken.append(test.take())
    assert torch.equal(*(counts for (counts,) in taken))
    assert taken[0][0][:2].sum(-1).tolist() == [[2, 2], [0, 1]], "correct and all, by corruption"


def test_images_without_corruptions(root):
    with pytest.raises(ConfigError, match=r"val_dataloader\.test\.dataset: StoredImages has no"):
        evaluation_set(resident(root, type="CorruptedData"))


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("step", [{"type": "RandomFlip", "prob": 0.0}, {"type": "Mixup"}])
def test_random_transforms(root, step):
    for config in (resident(root), corrupted(root)):
        with pytest.raises(ConfigError, match=r"transforms\[1\]: .* is random; test images"):
            evaluation_set({**config, "transforms": [toycls.NORMALIZE, step]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": 2}, r"val_dataloader\.test\.num_workers"),
        ({"dataset": {"type": "Stored"}}, r"dataset\.type: unknown dataset 'Stored'"),
        ({"dataset": {"type": "ToyScenes"}}, r"test\.type: ResidentData .* not ToyScenes"),
        ({"transforms": "Normalize"}, r"val_dataloader\.test\.transforms"),
    ],
)
def test_options_that_make_no_sense(root, options, message):
    with pytest.raises(ConfigError, match=message):
        evaluation_set(resident(root, **options))


def test_each_sample_has_a_domain():
    with pytest.raises(ConfigError, match=r"Own\.domains: has 1 entries for 2 samples"):
        domains_of(type("Own", (list,), {"domains": ["a"]})([1, 2]))


def test_counts_are_whole_and_of_one_shape():
    class Given(CountingMetric):
        count = lambda self, labels, given: given  # noqa: E731

        def compute_metrics(self):
            return {}

    metric = Given()
    metric.process([], {"data_samples": None}, torch.ones(2, dtype=torch.uint8))
    for wrong, told in (
        (torch.ones(2, dtype=torch.bool), "must be an int64 tensor, not Tensor torch.bool"),
        (torch.ones(2), "must be an int64 tensor"),
        (np.ones(2, np.int64), "must be an int64 tensor, not ndarray"),
        (torch.ones(1, dtype=torch.int64), r"gives \[2\], then \[1\]: return one shape"),
    ):
        with pytest.raises(ConfigError, match=rf"Given\.count: {told}"):
            metric.process([], {"data_samples": None}, wrong)
