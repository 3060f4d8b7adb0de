"""Clients in the evaluation: accuracy in their class mix, own test images, fine-tuned models."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import toycls
import toyseg

from fedseg.core.seeds import generator_for
from fedseg.datasets.arrays import StoredImages
from fedseg.errors import ConfigError
from fedseg.leaderboard.verify import verify
from fedseg.loaders.streaming import StreamingData
from fedseg.partition import divide
from fedseg.registry import DATASETS
from fedseg.runner.experiment import load_config


def train(tmp_path, **training):
    """A run; ``training`` changes the config of its training images."""
    root = toycls.write_data(tmp_path / "data")
    config = toycls.settings(
        tmp_path,
        root,
        train_dataloader={"dataset": training},
        averaging=None,
        train_cfg={"max_rounds": 2, "val_interval": 1},
    )
    return toyseg.train(config)


def test_test_images_in_each_clients_class_mix(tmp_path):
    runner = train(tmp_path)
    found = runner.results["client_accuracy"]
    by_class = list(runner.results["final"]["test"]["accuracy_by_class"].values())
    labels, clients = runner.data.dataset.labels, toycls.partition()
    expected = [np.mean([by_class[labels[i]] for i in own]) for own in clients.values()]
    assert found["clients"] == list(clients)
    first, last = runner.history.read()
    assert last["client_accuracy"] == pytest.approx(expected) and first["client_accuracy"]
    assert not found.keys() & {"rounds", "accuracy"}  # the series stands in the history alone
    # ties go to the first class
    main = [np.bincount(labels[own]).argmax() for own in clients.values()]
    assert found["main_class"] == main


@DATASETS.register_module()
class Unnamed(StoredImages):
    """Training images of a user's own, whose partition needs labels and nobody names of classes."""

    classes = ("w", "x", "y", "z")

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.metainfo = None


def test_training_images_without_names_of_classes_have_none(tmp_path):
    """The test images name theirs."""
    runner = train(tmp_path, type="Unnamed")
    assert "accuracy_by_class" in runner.results["final"]["test"]
    assert "client_accuracy" not in runner.results


HOLDOUT = {"train_dataloader": {"partition": {"holdout": 0.3}}}


def spread_of(values):
    """The figures of a metric over clients, by NumPy."""
    values = np.sort(values)
    worst = values[: int(np.ceil(len(values) / 10))].mean()
    return {"_mean": values.mean(), "_std": values.std(), "_worst10": worst, "_worst": values[0]}


def check_spread(found, name, values):
    for suffix, expected in spread_of(values).items():
        assert found[name + suffix] == pytest.approx(expected, abs=1e-9)


def clients_file(runner):
    return json.loads((Path(runner.work_dir) / "clients.json").read_text())


def classification(tmp_path, **changes):
    root = toycls.write_data(tmp_path / "data")
    changes = toyseg.merge(HOLDOUT, {"averaging": None, "train_cfg": {"max_rounds": 2}, **changes})
    return toycls.settings(tmp_path, root, **changes)


def normalized(images):
    images = (np.asarray(images) / 255 - np.array(toycls.MEAN)) / np.array(toycls.STD)
    return torch.from_numpy(images.transpose(0, 3, 1, 2)).float()


def test_accuracy_of_clients_on_their_own_images(tmp_path):
    runner = toyseg.train(classification(tmp_path))
    dataset = runner.data.dataset
    right, sizes = {}, {}
    for client, own in toycls.partition().items():
        held, trained = runner.data.held_out[client], runner.data.indices[client]
        assert sorted([*held, *trained]) == sorted(own) and len(held) == round(0.3 * len(own))
        with torch.no_grad():
            logits = runner.model.eval()(normalized(np.asarray(dataset.images)[held]))
        answers = logits.argmax(1).numpy() == np.asarray(dataset.labels)[held]
        right[client], sizes[client] = int(answers.sum()), len(held)
    found, table = runner.results["final"]["clients"], clients_file(runner)
    accuracies = {client: 100 * right[client] / sizes[client] for client in right}
    assert {c: one["accuracy"] for c, one in table["sets"]["clients"].items()} == accuracies
    assert {c: one["images"] for c, one in table["sets"]["clients"].items()} == sizes
    assert found["accuracy"] == 100 * sum(right.values()) / sum(sizes.values())
    check_spread(found, "accuracy", list(accuracies.values()))
    assert runner.history.read()[-1]["metrics"]["clients/accuracy_worst"] == min(
        accuracies.values()
    )


def segmentation(tmp_path, **changes):
    settings = {"val_evaluator": {"type": "IoUMetric"}, "train_cfg": {"max_rounds": 2}}
    return toyseg.settings(tmp_path, **toyseg.merge(toyseg.merge(HOLDOUT, settings), changes))


def iou(labels, predictions):
    """mIoU and IoU by class in percent, from sets of pixels."""
    known = labels != 255
    by_class = {}
    for number, name in enumerate("xyz"):
        truth, guess = (labels == number) & known, (predictions == number) & known
        share = 100 * (truth & guess).sum() / max(1, (truth | guess).sum())
        by_class[name] = float(share) if truth.any() else None
    return np.mean([v for v in by_class.values() if v is not None]), by_class


@pytest.mark.parametrize("personal", [None, toyseg.SILOBN])
def test_miou_of_clients_each_with_its_own_statistics(tmp_path, personal):
    everyone = {"client_sampler": {"clients_per_round": 5}, "averaging": None}
    runner = toyseg.train(segmentation(tmp_path, personal=personal, **everyone))
    items, table = runner.data.dataset.items, clients_file(runner)["sets"]["clients"]
    trained = {one["client"] for line in runner.history.read() for one in line["participants"]}
    values = {}
    for client, held in runner.data.held_out.items():
        w, buffers = runner.server.w, runner.server.buffers
        if personal is not None and client not in trained:
            continue  # by the batch's statistics, with others
        if personal is not None:
            buffers = buffers.clone()
            mask = runner.local_state.buffer_mask
            buffers[mask] = runner.store.get(client)["personal.buffers"]
        runner.flat.w.copy_(w)
        runner.flat.buffers.copy_(buffers)
        runner.model.eval()
        images = torch.stack([toyseg.sample(*items[i])["inputs"] for i in held])
        batch = {"inputs": images, "data_samples": torch.zeros(len(held), 8, 12)}
        with torch.no_grad():
            inputs = runner.model.data_preprocessor(batch, False)["inputs"]
            predictions = runner.model(inputs, mode="predict").numpy()
        values[client], by_class = iou(np.stack([items[i][1] for i in held]), predictions)
        assert table[client]["mIoU"] == pytest.approx(values[client])
        assert table[client]["IoU"] == pytest.approx(by_class)
    assert len(values) >= 5
    check_spread(runner.results["final"]["clients"], "mIoU", [o["mIoU"] for o in table.values()])


def test_holdout_is_seeded_and_part_of_the_checksum():
    dataset = toyseg.ToyScenes(users={"a": 10, "b": 1, "c": 2})
    recipe = {"type": "NaturalPartition"}
    clients, held = divide(recipe, dataset)
    assert held == {} and [len(c) for c in clients.values()] == [10, 1, 2]
    clients, held = divide({**recipe, "holdout": 0.2}, dataset)
    assert [len(c) for c in clients.values()] == [8, 1, 1]
    assert {c: len(i) for c, i in held.items()} == {"a": 2, "c": 1}
    again = divide({**recipe, "holdout": 0.2}, dataset)[1]
    assert {c: i.tolist() for c, i in held.items()} == {c: i.tolist() for c, i in again.items()}
    sums = {
        StreamingData(dataset, {**recipe, **option}, 4).checksum()
        for option in ({}, {"holdout": 0.2}, {"holdout": 0.4})
    }
    assert len(sums) == 3


def test_results_count_what_was_trained_and_what_was_tested(small_config, tmp_path):
    """Two clients with four images each hold one out; three, and their mirrored ones, are left."""
    options = [
        "train_dataloader.partition.holdout=0.25",
        "train_dataloader.dataset.mirror=True",
        "train_cfg.max_rounds=1",
        "averaging=None",
    ]
    config = load_config(small_config, work_dir=tmp_path / "run", options=options)
    runner = toyseg.train(config)
    test = next(test for test in runner.val_loop.sets if test.name == "clients")
    assert len(test.dataset) == 8
    tested = {test.dataset.files[index] for index in test.samples}
    trained = [runner.data.dataset.files[i] for own in runner.data.indices.values() for i in own]
    assert len(tested) == 2 and len(trained) == 12 and tested.isdisjoint(trained)
    data = json.loads((tmp_path / "run" / "results.json").read_text())["data"]
    assert data["test:clients"]["samples"] == 2
    assert data["train"]["samples"] == 12


@pytest.mark.parametrize("share", [0, 1, -0.1, "half", True])
def test_impossible_shares(share):
    with pytest.raises(ConfigError, match=r"partition\.holdout: must be above 0 and below 1"):
        divide({"type": "NaturalPartition", "holdout": share}, toyseg.ToyScenes())


def test_metrics_that_do_not_count_are_refused(tmp_path):
    config = toyseg.settings(tmp_path, **HOLDOUT)
    with pytest.raises(ConfigError, match="PixelAccuracy does not count by client"):
        toyseg.train(config)


# ---------------------------------------------------------------- fine-tuned clients

VIEWS = {"views": ["by_domain", "fine_tuned"], "fine_tune_steps": 5}


def sgd_steps(model, dataset, own, client, steps, lr):
    """A copy of the model after plain SGD on a client's images, in batches of eight."""
    model, epoch, done = copy.deepcopy(model).train(), 0, 0
    while done < steps:
        order = own[generator_for(0, "shuffle", 0, client, epoch).permutation(len(own))]
        for batch in np.split(order, range(8, len(own), 8))[: steps - done]:
            logits = model(normalized(np.asarray(dataset.images)[batch]))
            labels = torch.from_numpy(np.asarray(dataset.labels)[batch])
            gradients = torch.autograd.grad(
                torch.nn.functional.cross_entropy(logits, labels), list(model.parameters())
            )
            with torch.no_grad():
                for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                    parameter -= lr * gradient
            done += 1
        epoch += 1
    return model.eval()


@pytest.mark.parametrize("held_out", [True, False])
@pytest.mark.parametrize("lr", [None, 0.3])
def test_fine_tuned_clients(tmp_path, held_out, lr):
    """On their held-out images, else on test images that are dealt in their mix of classes."""
    optimizer = {"type": "OptimWrapper", "optimizer": {"type": "SGD", "lr": 0.2}, "_delete_": True}
    config = classification(
        tmp_path,
        optim_wrapper=optimizer,
        param_scheduler={"type": "ExponentialLR", "gamma": 0.5},  # which fine-tuning does not see
        train_dataloader={"transforms": [toycls.NORMALIZE]},
        val_cfg={**VIEWS, "fine_tune_lr": lr},
    )
    if not held_out:
        del config["train_dataloader"]["partition"]["holdout"]
    runner = toyseg.train(config)
    w, data, name = runner.server.w.clone(), runner.data, "clients" if held_out else "test"
    test = next(test for test in runner.val_loop.sets if test.name == name)
    groups, tables = runner.val_loop.domains.client_images(test), clients_file(runner)["sets"]
    before = tables["clients" if held_out else "test_personal"]
    assert {c: one["images"] for c, one in before.items()} == {c: len(i) for c, i in groups.items()}
    for client, images in groups.items():
        start = copy.deepcopy(runner.model)
        own, number = data.indices[client], data.clients.index(client)
        tuned = sgd_steps(start, data.dataset, own, number, 5, lr or 0.2)
        labels = torch.from_numpy(np.asarray(test.dataset.labels)[images])
        for model, table in ((start.eval(), before), (tuned, tables[f"{name}_fine_tuned"])):
            with torch.no_grad():
                right = model(normalized(np.asarray(test.dataset.images)[images])).argmax(1)
            expected = 100 * (right == labels).double().mean().item()
            assert table[client]["accuracy"] == pytest.approx(expected)
    check_spread(
        runner.results["final"][f"{name}_fine_tuned"],
        "accuracy",
        [one["accuracy"] for one in tables[f"{name}_fine_tuned"].values()],
    )
    if not held_out:
        dealt = np.concatenate(list(groups.values()))
        assert len(dealt) == len(set(dealt)) == toycls.TEST, "every image once"
    # only the last evaluation has them, nothing of them stays, and a test finds them again
    assert torch.equal(runner.server.w, w)
    assert f"{name}_fine_tuned/accuracy" not in runner.history.read()[0].get("metrics", {})
    assert verify(runner.work_dir, trust=["toyseg", "toycls"]).passed


def test_domains_in_every_view(tmp_path):
    """Mean, deviation and worst ones over domains; clients of a domain on all of its images."""
    config = toyseg.settings(
        tmp_path,
        val_evaluator={"type": "IoUMetric"},
        averaging=None,
        train_cfg={"max_rounds": 2},
        val_cfg={**VIEWS, "spread": True},
    )
    runner = toyseg.train(config)
    tables, final = clients_file(runner), runner.results["final"]
    assert set(tables["sets"]) == {"unseen", "seen", *(f"seen_{v}" for v in VIEWS_OF_SEEN)}
    for name in tables["sets"]:
        check_spread(final[name], "mIoU", [one["mIoU"] for one in tables["sets"][name].values()])
        assert tables["all"][name]["IoU"] == final[name]["IoU"]
    seen = next(test for test in runner.val_loop.sets if test.name == "seen")
    assert set(tables["sets"]["seen_by_domain"]) == set(seen.domains)
    images = {c: one["images"] for c, one in tables["sets"]["seen_fine_tuned"].items()}
    assert images == {c: seen.domains.count(toyseg.DOMAIN_OF[c]) for c in images}
    assert set(images) == set(toyseg.USERS)


@pytest.mark.parametrize(
    ("metric", "spread", "counted"),
    [
        ("IoUMetric", None, True),
        ("IoUMetric", False, False),
        ("PixelAccuracy", None, False),  # does not count
    ],
)
def test_label_maps_are_counted_by_domain(tmp_path, metric, spread, counted):
    options = {} if spread is None else {"spread": spread}
    config = toyseg.settings(
        tmp_path,
        val_evaluator={"type": metric},
        averaging=None,
        personal=None,
        train_cfg={"max_rounds": 1},
        val_cfg=options,
    )
    runner = toyseg.train(config)
    assert (Path(runner.work_dir) / "clients.json").is_file() == counted
    metrics = runner.history.read()[-1]["metrics"]
    assert ("seen/mIoU_worst10" in metrics) == counted
    if counted:
        assert set(clients_file(runner)["sets"]) == {"seen"}  # the others are of one domain


VIEWS_OF_SEEN = ("by_domain", "personal", "fine_tuned")


def test_a_view_without_images_of_clients_is_told(tmp_path):
    mixed = {"type": "HomogeneousPartition", "num_clients": 3, "_delete_": True}
    unnamed = {"type": "Unnamed"}
    root = toycls.write_data(tmp_path / "data")
    config = toycls.settings(
        tmp_path, root, train_dataloader={"partition": mixed, "dataset": unnamed}, val_cfg=VIEWS
    )
    runner = toyseg.runner(config)
    runner.build_federation()
    (log,) = tmp_path.rglob("*.log")
    assert "val_cfg.views: no test set has images of clients for fine_tuned" in log.read_text()
