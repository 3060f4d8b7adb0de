"""What counts as comparable, and the reasons against it."""

from dataclasses import replace

import pytest
import toyresults

from fedseg.leaderboard.benchmarks import benchmarks, settings
from fedseg.leaderboard.comparable import reasons_against

RAINY = "idda_rainy_heterogeneous"
CIFAR = "cifar10_a005_c5_cnn"


def metrics_of(setting) -> dict[str, float]:
    return {f"{domain}/mIoU": 50.0 for domain in setting.domains}


def reasons(id_: str, **changes) -> tuple[str, ...]:
    setting = toyresults.setting(id_)
    content = toyresults.results(id_, metrics_of(setting), **changes)
    return reasons_against(toyresults.parsed(content), setting)


def test_a_run_as_the_benchmark_wants_it_is_comparable():
    for setting in settings():
        assert reasons(setting.id) == (), setting.id


def test_synthetic_data_are_never_comparable():
    for setting in settings():
        content = toyresults.results(setting.id, metrics_of(setting))
        (reason,) = reasons_against(toyresults.parsed(toyresults.synthetic(content)), setting)
        assert reason.startswith("synthetic data")
        content["data"][f"test:{setting.domains[0]}"]["synthetic"] = True  # one set is enough
        assert reasons_against(toyresults.parsed(content), setting) == (reason,)


def test_every_difference_from_feddrive_is_one_reason():
    steps = list(toyresults.setting(RAINY).test_steps)
    for changes, expected in (
        ({"rounds": 300, "completed_rounds": 300}, "fewer rounds: 300 instead of 1600"),
        ({"rounds": 3000}, "more rounds: 3000 instead of 1600"),
        (
            {"clients_per_round": {"min": 10, "max": 10}},
            "other participation: 10 clients per round instead of 5",
        ),
        (
            {"clients_per_round": {"min": 4, "max": 5}},
            "other participation: 4 to 5 clients per round instead of 5",
        ),
        ({"data__train__partition_sha256": "a" * 64}, "other split: the checksum"),
        ({"data__train__clients": 70}, "other split: 70 clients instead of 69"),
        ({"data__train__samples": 138}, "other training images: 138 instead of 3312"),
        ({"data__test_unseen__samples": 35}, "other test images (unseen): 35 instead of 2100"),
        ({"data__test_seen__split_checksum": "a" * 64}, "other test images (seen): the checksum"),
        ({"data__test_seen__steps": steps[:1]}, "test images (seen) are prepared"),
        ({"data__test_seen": ...}, "no test set 'seen'"),
        (
            {"model__type": "Segmentor", "model__network": "EncoderDecoder"},
            "other model: EncoderDecoder instead of bisenetv2",
        ),
        ({"last_rounds__rounds": 50}, "other metric: mean over the last 50 rounds instead of 100"),
        ({"last_rounds__evaluations": 2}, "too few evaluations: 2 in the last 100 rounds"),
    ):
        (reason,) = reasons(RAINY, **changes)
        assert reason.startswith(expected)


def test_a_domain_that_was_evaluated_at_the_end_only_has_no_mean():
    """As with ``val_dataloader.unseen.final_only=True``: other test sets have their evaluations."""
    setting = toyresults.setting(RAINY)
    content = toyresults.results(RAINY, metrics_of(setting))
    rounds = list(range(setting.rounds - 95, setting.rounds + 1, 5))
    content["curves"] |= {"rounds": rounds, "bytes": rounds, "loss": [1.0] * len(rounds)}
    figures = content["curves"]["figures"] = {n: [50.0] * len(rounds) for n in metrics_of(setting)}
    assert reasons_against(toyresults.parsed(content), setting) == ()
    figures["unseen/mIoU"][:-1] = [None] * (len(rounds) - 1)
    (reason,) = reasons_against(toyresults.parsed(content), setting)
    assert reason.startswith("too few evaluations: 1 of unseen in the last 100 rounds, at least 20")


SILO, LAB = {"type": "SiloBN"}, {"type": "LABStyle"}
# of every field: another value, for a run with SiloBN and LAB
OTHER_PROTOCOL = {
    "network": "BiSeNetV2Segmentor",
    "input_size": [256, 464],
    "training_transforms": [{"type": "HorizontalFlip", "p": 0.5}],
    "mirror_images": None,
    "normalization": {"mean": [0.3, 0.4, 0.3], "std": [0.5, 0.5, 0.5]},
    "style_bank": {"images_per_domain": 8, "exclude": "domain"},
    "batch_size": 4,
    "drop_last": False,
    "shuffle": "epoch",
    "rounds": 1000,
    "local_epochs": 1,
    "precision": "float64",
    "client_draws": "UniformSampler",
    "batchnorm_layers": "bn",
    "test_order": "by domain",
    "test_batch_size": {"unseen": 8, "seen": 4},
    "test_drop_last": {"unseen": True, "seen": False},
    "ignore_index": [0],
}


@pytest.mark.parametrize("id_", ["idda_rainy_heterogeneous", "idda_rainy_heterogeneous_paper"])
@pytest.mark.parametrize(("field", "value"), OTHER_PROTOCOL.items())
def test_another_value_of_a_protocol_field_is_one_reason(id_, field, value):
    method = {"batchnorm": SILO, "data__train__style": LAB}
    assert reasons(id_, **method) == ()
    (reason,) = reasons(id_, **method, **{f"protocol__{field}": value})
    assert reason.startswith(f"other {field.replace('_', ' ')}")


def test_every_field_of_a_protocol_is_compared():
    for id_ in ("idda_rainy_heterogeneous", "cityscapes_uniform_paper"):
        content = toyresults.results(id_, {}, batchnorm=SILO, data__train__style=LAB)
        assert set(content["protocol"]) == set(OTHER_PROTOCOL)


def test_a_protocol_is_not_compared_where_there_is_none():
    assert reasons(CIFAR, protocol={"batch_size": 3}) == ()


def test_values_that_a_method_does_not_use_are_not_asked_for():
    for name in ("test_order", "test_batch_size", "test_drop_last", "batchnorm_layers"):
        assert toyresults.results(RAINY, {})["protocol"][name] is None
    assert toyresults.results(RAINY, {})["protocol"]["style_bank"] is None
    assert toyresults.results(RAINY, {}, batchnorm=SILO)["protocol"]["batch_size"] == 8
    for odd in ({"type": ["SiloBN"]}, {}):  # in an untrusted file
        found = reasons(RAINY, batchnorm=odd, protocol=toyresults.results(RAINY, {})["protocol"])
        assert any(reason.startswith("other test order") for reason in found)


def test_mirrored_images_count_twice():
    (reason,) = reasons("cityscapes_uniform", data__train__samples=2975)
    assert reason == "other training images: 2975 instead of 5950"


def test_a_released_split_must_be_that_one_once_its_checksum_is_known():
    setting = toyresults.setting(CIFAR)
    train = {**setting.known["train"], "partition_sha256": ["a" * 64]}
    asking = replace(setting, known={**setting.known, "train": train})

    def found(**changes):
        content = toyresults.results(CIFAR, {}, **changes)
        return reasons_against(toyresults.parsed(content), asking)

    of_papers = {"type": "ReleasedPartition", "alpha": 0.05}
    released = {"data__train__partition": of_papers, "data__train__partition_sha256": "a" * 64}
    assert found(**released) == reasons(CIFAR, **released) == ()
    (reason,) = found()  # drawn by the same rule
    assert reason.startswith("other split: the checksum")
    (reason,) = found(data__train__partition=of_papers)
    assert reason.startswith("other split: the checksum")
    (reason,) = reasons(CIFAR, data__train__partition={**of_papers, "alpha": 0})
    assert reason.startswith("other split: alpha 0 instead of 0.05")
    (reason,) = reasons("cifar10_a005_c10_resnet20", data__train__partition=of_papers)
    assert reason.startswith("other split: ReleasedPartition")


def test_every_difference_from_cifar_is_one_reason():
    for changes, expected in (
        ({"data__train__partition__alpha": 0.5}, "other split: alpha 0.5 instead of 0.05"),
        (
            {"data__train__partition": {"type": "DirichletClassPartition", "alpha": 0.05}},
            "other split: DirichletClassPartition instead of DirichletPartition",
        ),
        ({"data__train__clients": 50}, "other split: 50 clients instead of 100"),
        ({"data__test_test__content_sha256": "a" * 64}, "other test images (test): the checksum"),
        ({"data__train__content_sha256": None}, "the checksum of training images"),
        ({"model__type": "ResNet18GN"}, "other model: resnet18_gn instead of cnn"),
        ({"load_from": "good.pth"}, "trained before: it begins with the weights of good.pth"),
    ):
        (reason,) = reasons(CIFAR, **changes)
        assert reason.startswith(expected)


def test_all_differences_are_reasons():
    found = reasons(CIFAR, data__train__samples=1000, rounds=500, data__train__clients=10)
    assert len(found) == 3
    for id_ in (RAINY, CIFAR):
        partition = {"type": "SinglePartition"}
        (reason,) = reasons(id_, data__train__partition=partition, data__train__clients=1)
        assert reason.startswith("centralized training")


def test_a_recipe_may_have_another_seed_and_omit_defaults():
    assert reasons(CIFAR, data__train__partition__seed=4, data__train__partition_sha256="b") == ()
    changes = {"data__train__partition": {"type": "PachinkoPartition"}}
    assert reasons("cifar100_pam_c10_r10000_resnet18", **changes) == ()


def test_corruptions_must_be_the_official_ones():
    (table,) = (b for b in benchmarks() if b.id == f"{CIFAR}_corrupted")
    content = toyresults.results(CIFAR, {"test/accuracy": 70.0, "corrupted/accuracy": 60.0})
    corrupted = toyresults.entry("CIFAR10CDataset", {"samples": 950_000})
    content["data"]["test:corrupted"] = corrupted
    assert table.reasons_against(toyresults.parsed(content)) == ()
    for changes, expected in (
        ({"generated": ["fog", "snow"]}, "2 of the corruptions"),
        ({"samples": 10_000}, "10000 images instead of 950000"),
    ):
        content["data"]["test:corrupted"] = {**corrupted, **changes}
        (reason,) = table.reasons_against(toyresults.parsed(content))
        assert expected in reason
