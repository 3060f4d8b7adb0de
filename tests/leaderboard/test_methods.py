"""A run's method in the vocabulary of the published records."""

import pytest
import toyresults

from fedseg.leaderboard.methods import Method, method_of_record, method_of_results
from fedseg.leaderboard.reference import read_published

SAM, ASAM = {"type": "SAMOptimWrapper"}, {"type": "ASAMOptimWrapper"}


def method(epochs: int = 2, config: dict | None = None, **changes) -> Method:
    content = toyresults.results("idda_rainy_heterogeneous", {"unseen/mIoU": 50.0}, **changes)
    config = {"personal": changes.get("personal"), **(config or {})}
    results = toyresults.parsed(content).model_copy(update={"config": config})
    return method_of_results(results, epochs)


SGDM = {"type": "SGD", "momentum": 0.9}


@pytest.mark.parametrize(
    ("algorithm", "wrapper", "key", "label"),
    [
        ({"type": "FedAvg"}, None, "fedavg", "FedAvg"),
        ({"type": "FedAvg"}, SAM, "fedsam", "FedSAM"),
        ({"type": "FedAvg"}, ASAM, "fedasam", "FedASAM"),
        ({"type": "FedAvg", "server_optim": SGDM}, None, "fedavgm", "FedAvgM"),
        ({"type": "FedAvg", "server_optim": SGDM}, ASAM, "fedavgm_asam", "FedAvgM + ASAM"),
        ({"type": "FedAvg", "server_optim": {"type": "SGD"}}, None, "fedavg", "FedAvg"),
        ({"type": "FedDyn"}, SAM, "feddyn_sam", "FedDyn + SAM"),
        ({"type": "FedGloSS"}, None, "fedgloss_sgd", "FedGloSS"),
        ({"type": "FedGloSS"}, SAM, "fedgloss_sam", "FedGloSS + SAM"),
        ({"type": "NaiveFedGloSS"}, SAM, "naive_fedgloss", "NaiveFedGloSS"),
        ({"type": "FedSMOO"}, None, "fedsmoo", "FedSMOO"),
        ({"type": "MIME"}, None, "mime_sgd", "MIME"),
        ({"type": "MIME", "momentum": 0.9}, None, "mime_sgdm", "MIME with momentum"),
        ({"type": "SCAFFOLD"}, None, "scaffold", "SCAFFOLD"),
        ({"type": "MyOwn"}, None, "MyOwn", "MyOwn"),
        ({"type": "MyOwn"}, SAM, "MyOwn_sam", "MyOwn + SAM"),
    ],
)
def test_algorithms(algorithm, wrapper, key, label):
    found = method(algorithm=algorithm, **({"optim_wrapper": wrapper} if wrapper else {}))
    assert (found.algorithm, found.label) == (key, label)


@pytest.mark.parametrize(
    ("changes", "key", "label"),
    [
        ({"local_loss": {"type": "MOON"}}, "moon", "MOON"),
        ({"local_loss": {"type": "MyLoss"}}, "MyLoss", "MyLoss"),
        ({"config__model__stochastic_depth": 0.9}, "stochdepth", "StochDepth"),
    ],
)
def test_local_losses(changes, key, label):
    for algorithm, before, words in (("FedAvg", "", ""), ("SCAFFOLD", "scaffold+", "SCAFFOLD + ")):
        found = method(algorithm={"type": algorithm}, **changes)
        assert (found.algorithm, found.label) == (before + key, words + label)


def test_everything_else_in_a_label():
    changes = {
        "optim_wrapper": ASAM,
        "averaging": {"type": "SWA"},
        "personal": ["@batchnorm.statistics"],
        "data__train__style": {"type": "LABStyle"},
        "local_epochs": 1,
    }
    assert method(**changes).label == "FedASAM + SWA + SiloBN, LAB, E = 1"
    assert method(epochs=1, **changes).label == "FedASAM + SWA + SiloBN, LAB"
    steps = [{"type": "RandomCrop"}, {"type": "Cutout", "size": 8}, {"type": "Mixup"}]
    assert method(data__train__steps=steps).label == "FedAvg, cutout and mixup"
    assert method(local_epochs=None, local_steps=7).label == "FedAvg, 7 local steps"
    released = {"data__train__partition": {"type": "ReleasedPartition", "alpha": 0}}
    assert method(local_epochs=1, **released).label == "FedAvg, E = 1, released split"
    server = {"type": "FedAvg", "server_optim": {"type": "Adam"}}
    assert method(algorithm=server).label == "FedAvg + server Adam"
    beside = {"personal": "@head", "model": {"lora": {"r": 8}}, "robust": {"type": "Krum"}}
    beside["attack"] = {"type": "SignFlip", "share": 0.2}
    assert method(config=beside).label == "FedAvg, Krum, SignFlip, personal @head, LoRA"
    odd = {"personal": 3, "model": [], "robust": 1, "attack": ["SignFlip"]}
    assert method(config=odd).label == "FedAvg, personal 3"
    for odd in ("Adam", ["Adam"], 3, None, {"type": 3}):  # in an untrusted file
        assert method(algorithm={"type": "FedAvg", "server_optim": odd}).label == "FedAvg"


def test_every_published_method_has_a_name():
    for record in read_published():
        if record.split is not None:
            label = method_of_record(record, record.local_epochs).label
            assert "_" not in label and label[0].isupper(), label


def test_a_run_has_the_method_of_its_published_row():
    records = [r for r in read_published() if r.paper == "ECCV22" and r.table == "Table 8"]
    published = {method_of_record(r, 2) for r in records}
    swa = {"type": "SWA"}
    assert method(optim_wrapper=ASAM, averaging=swa) in published
    assert method(personal=["@batchnorm.statistics"]) in published
    mixed = next(r for r in read_published() if r.algorithm == "mixup")
    assert method_of_record(mixed, 20) == Method("fedavg", augmentation="mixup")
