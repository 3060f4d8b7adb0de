"""What counts as comparable, and the reasons against it."""

from dataclasses import replace

import pytest
import toyresults

from fedseg.config.roles import select
from fedseg.leaderboard.benchmarks import benchmarks, settings
from fedseg.leaderboard.comparable import (
    NEVER_COMPARED,
    ComparedRun,
    compare,
    find_reasons,
    find_reasons_against_table,
    keys_not_compared,
    protocol_of,
)

RAINY, PAPER = "idda_rainy_heterogeneous", "idda_rainy_heterogeneous_paper"
CIFAR = "cifar10_a005_c5_cnn"
SILO, LAB = ["@batchnorm.statistics"], {"type": "LABStyle"}
WITH_METHODS = {"personal": SILO, "data__train__style": LAB}


def metrics_of(setting) -> dict[str, float]:
    return {f"{domain}/mIoU": 50.0 for domain in setting.domains}


def reasons(id_: str, **changes) -> tuple[str, ...]:
    content = toyresults.results(id_, metrics_of(toyresults.setting(id_)), **changes)
    return tuple(toyresults.reasons(id_, content))


def test_a_run_as_the_benchmark_wants_it_is_comparable():
    for setting in settings():
        assert reasons(setting.id) == (), setting.id


def test_synthetic_data_are_never_comparable():
    for setting in settings():
        content = toyresults.results(setting.id, metrics_of(setting))
        (reason,) = toyresults.reasons(setting.id, toyresults.synthetic(content))
        assert reason.startswith("synthetic data")
        content["data"][f"test:{setting.domains[0]}"]["synthetic"] = True  # one set is enough
        assert toyresults.reasons(setting.id, content) == [reason]


def identified_by_checksum(setting) -> set[str]:
    """Keys that say which images and clients there are, where a checksum says so, too."""
    train, tests = setting.known.get("train", {}), setting.known.get("test", {})
    keys = {f"val_dataloader.{d}.dataset.{key}" for d in tests for key in ("split", "users")}
    if {"partition_sha256", "content_sha256"} & train.keys():
        keys.add("train_dataloader.dataset.split")
    if "partition_sha256" in train:
        keys |= {key for key in setting.protocol if key.startswith("train_dataloader.partition.")}
    return keys


@pytest.mark.parametrize("setting", settings(), ids=lambda setting: setting.id)
def test_another_value_of_any_key_of_the_protocol_is_told(setting):
    """Of the composed config, each key with each of its values changed once."""
    methods = WITH_METHODS if any(v["when"] for v in setting.variants) else {"personal": SILO}
    content = toyresults.results(setting.id, metrics_of(setting), **methods)
    results = toyresults.parsed(content)
    assert find_reasons(ComparedRun(results), setting) == []
    untold = set()
    for key, value in protocol_of(results.config).items():
        others = [value + 1 if isinstance(value, int | float) else "other", ...]
        if isinstance(value, list):
            others += [[*value, "other"], value[:-1]]
        for other in others:
            config = toyresults.copy.deepcopy(results.config)
            toyresults.put(config, key, other)
            other_run = ComparedRun(results.model_copy(update={"config": config}))
            told = find_reasons(other_run, setting)
            if not any(reason.removeprefix("other split: ").startswith(key) for reason in told):
                untold.add(key)
    tests = (f"val_dataloader.{domain}." for domain in setting.domains)
    elsewhere = {k for k in setting.protocol if k.startswith("val_dataloader.")}
    elsewhere -= {k for test in tests for k in setting.protocol if k.startswith(test)}
    unasked = {*setting.free, *identified_by_checksum(setting), *elsewhere, *NEVER_COMPARED}
    unasked |= set() if setting.window else {"train_cfg.val_last_rounds"}
    assert untold == unasked & protocol_of(results.config).keys()


def test_values_that_a_config_does_not_name_are_told_too():
    for key in ("dtype", "load_from", "val_evaluator__ignore_index"):
        (reason,) = reasons(RAINY, personal=SILO, **{f"config__{key}": "other"})
        assert reason == f'{key.replace("__", ".")}: "other", in {RAINY} not set'


def test_another_class_is_one_reason():
    for part in ("model", "client_sampler", "val_evaluator"):
        (reason,) = reasons(RAINY, **{f"config__{part}": {"type": "Other", "option": 3}})
        assert reason.startswith(f'{part}.type: "Other", in {RAINY} "')


def test_a_method_may_have_a_protocol_of_its_own():
    """FedDrive trains SiloBN in smaller batches, and gives LAB any image of other conditions."""
    batch, exclude = "train_dataloader.batch_size", "train_dataloader.dataset.style.exclude"
    silo = toyresults.results(RAINY, {}, personal=SILO)
    assert silo["config"]["train_dataloader"]["batch_size"] == 8
    assert reasons(RAINY, config__train_dataloader__batch_size=8)[0].startswith(f"{batch}: 8, in")
    same = {"personal": SILO, "config__train_dataloader__batch_size": 16}
    assert reasons(RAINY, **same) == (f"{batch}: 16, in {RAINY} 8",)
    style = {**LAB, "images_per_domain": None, "exclude": "domain"}
    (reason,) = reasons(
        RAINY, data__train__style=LAB, config__train_dataloader__dataset__style=style
    )
    assert reason == f'{exclude}: "domain", in {RAINY} "condition"'
    for odd in ({"type": ["SiloBN"]}, 3, [["@batchnorm"]]):  # in an untrusted file
        assert reasons(RAINY, personal=odd) == ()


def test_the_size_of_test_batches_matters_to_a_batchnorm_policy_alone():
    other = {"config__val_dataloader__seen__batch_size": 3}
    assert reasons(RAINY, **other) == ()
    (reason,) = reasons(RAINY, personal=SILO, **other)
    assert reason.startswith("val_dataloader.seen.batch_size: 3, in")


def test_what_no_source_states_is_free():
    """The ECCV 2022 paper's precision; elsewhere local training, which the row names, too."""
    half, single = {"config__train_cfg__amp": True}, {"config__train_cfg__amp": False}
    assert reasons(PAPER, **half) == reasons(PAPER, **single) == reasons(CIFAR, **half) == ()
    assert reasons(RAINY, **single)[0].startswith("train_cfg.amp")
    assert reasons(PAPER, config__dtype="float64")[0].startswith("dtype")
    assert reasons(CIFAR, local_epochs=3) == ()
    assert reasons(PAPER, local_epochs=3) == (f"train_cfg.local_epochs: 3, in {PAPER} 2",)


def test_values_of_either_paper_and_augmentations_count():
    setting = toyresults.setting(CIFAR)
    (eccv,) = (variant for variant in setting.variants if "eccv2022" in variant["command"])
    normalize = {f"config__{key.replace('.', '__')}": v for key, v in eccv["change"].items()}
    assert reasons(CIFAR, **normalize) == ()
    steps = normalize.pop("config__train_dataloader__transforms")
    assert len(reasons(CIFAR, **normalize)) == 1  # trained in one way, tested in another
    steps = [*steps, {"type": "Cutout", "size": 8}, {"type": "Mixup", "alpha": 1.0}]
    assert reasons(CIFAR, **normalize, config__train_dataloader__transforms=steps) == ()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"clients_per_round": {"min": 4, "max": 5}}, "other participation: 4 to 5 clients"),
        ({"data__train__partition_sha256": "a" * 64}, "other split: the checksum"),
        ({"data__train__clients": 70}, "other split: 70 clients instead of 69"),
        ({"data__train__samples": 138}, "other training images: 138 instead of 3312"),
        ({"data__test_unseen__samples": 35}, "other test images (unseen): 35 instead of 2100"),
        ({"data__test_seen__split_checksum": "a" * 64}, "other test images (seen): the checksum"),
        ({"data__test_seen": ...}, "no test set 'seen'"),
        ({"evaluations": 2}, "too few evaluations: 2 in the last 100 rounds"),
        ({"rounds": 300, "completed_rounds": 300}, f"train_cfg.max_rounds: 300, in {RAINY} 1600"),
    ],
)
def test_every_difference_from_feddrive_is_one_reason(changes, expected):
    (reason,) = reasons(RAINY, **changes)
    assert reason.startswith(expected)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"data__train__partition__alpha": 0.5},
            "other split: train_dataloader.partition.alpha: 0.5, in",
        ),
        (
            {"data__train__partition": {"type": "DirichletClassPartition", "alpha": 0.05}},
            'other split: train_dataloader.partition.type: "DirichletClassPartition", in',
        ),
        ({"data__train__clients": 50}, "other split: 50 clients instead of 100"),
        ({"data__test_test__content_sha256": "a" * 64}, "other test images (test): the checksum"),
        ({"data__train__content_sha256": None}, "the checksum of training images"),
        ({"model__type": "ResNet18GN"}, 'model.type: "ResNet18GN", in'),
        ({"load_from": "good.pth"}, 'load_from: "good.pth", in'),
    ],
)
def test_every_difference_from_cifar_is_one_reason(changes, expected):
    (reason,) = reasons(CIFAR, **changes)
    assert reason.startswith(expected)


def test_a_domain_that_was_evaluated_at_the_end_only_has_no_mean():
    """As with ``val_dataloader.unseen.final_only=True``: other test sets have their evaluations."""
    setting = toyresults.setting(RAINY)
    content = toyresults.results(RAINY, metrics_of(setting))
    assert toyresults.reasons(RAINY, content) == []
    figures = content["curves"]["figures"]
    figures["unseen/mIoU"][:-1] = [None] * (len(figures["unseen/mIoU"]) - 1)
    (reason,) = toyresults.reasons(RAINY, content)
    assert reason.startswith("too few evaluations: 1 of unseen in the last 100 rounds, at least 20")


def test_mirrored_images_count_twice():
    (reason,) = reasons("cityscapes_uniform", data__train__samples=2975)
    assert reason == "other training images: 2975 instead of 5950"


def test_a_released_split_must_be_that_one_once_its_checksum_is_known():
    setting = toyresults.setting(CIFAR)
    train = {**setting.known["train"], "partition_sha256": ["a" * 64]}
    asking = replace(setting, known={**setting.known, "train": train})

    def against(**changes):
        content = toyresults.results(CIFAR, {}, **changes)
        return tuple(find_reasons(ComparedRun(toyresults.parsed(content)), asking))

    of_papers = {"type": "ReleasedPartition", "alpha": 0.05, "num_clients": 100}
    released = {"data__train__partition": of_papers, "data__train__partition_sha256": "a" * 64}
    assert against(**released) == reasons(CIFAR, **released) == ()
    (reason,) = against()  # drawn by the same rule
    assert reason.startswith("other split: the checksum")
    (reason,) = against(data__train__partition=of_papers)
    assert reason.startswith("other split: the checksum")
    (reason,) = reasons(CIFAR, data__train__partition={**of_papers, "alpha": 0})
    assert reason.startswith("other split: train_dataloader.partition.alpha: 0, in")
    (reason,) = reasons("cifar10_a005_c10_resnet20", data__train__partition=of_papers)
    assert reason.startswith(
        'other split: train_dataloader.partition.type: "ReleasedPartition", in'
    )


def test_all_differences_are_reasons_unless_one_is_decisive():
    """Where the images are rendered or the clients others, nothing else matters."""
    changes = {"data__train__samples": 1, "rounds": 500, "amp": True}
    assert len(reasons(CIFAR, **changes, model__type="ResNet18GN")) == 3
    (reason,) = reasons(CIFAR, **changes, data__train__clients=10)
    assert reason == "other split: 10 clients instead of 100"
    for id_ in (RAINY, CIFAR):
        partition = {"type": "SinglePartition"}
        (reason,) = reasons(id_, data__train__partition=partition, data__train__clients=1)
        assert reason.startswith("centralized training")


def test_a_run_is_compared_with_the_setting_that_its_config_names():
    def compared(id_: str, **changes):
        content = toyresults.results(id_, metrics_of(toyresults.setting(id_)), **changes)
        return compare(toyresults.parsed(content))

    assert compared(RAINY).setting.id == RAINY and not compared(RAINY).reasons
    silobn = compared(RAINY, personal=SILO, setting="idda_rainy_batch8")
    assert silobn.setting.id == RAINY and not silobn.reasons
    other = compared(RAINY, setting="idda_rainy_paper")
    assert other.setting.id == PAPER
    assert other.reasons[0] == f"train_cfg.max_rounds: 1600, in {PAPER} 1500"
    unknown = compared(RAINY, setting="mine")
    assert unknown.setting is None
    assert unknown.reasons == ("there are no published numbers for its setting, mine",)
    assert compared(RAINY, setting=None).reasons == ("its config names no setting",)
    (reason,) = compared(RAINY, data__train__dataset="Mine").reasons
    assert reason == "other data set: Mine, not IDDADataset"


def test_of_settings_of_one_name_the_closest_counts():
    """They differ in an option: ``cifar10_a005`` with 5, 10 or 20 clients a round."""
    for setting in settings():
        content = toyresults.results(setting.id, metrics_of(setting))
        found = compare(toyresults.parsed(content))
        assert (found.setting.id, found.reasons) == (setting.id, ())


def test_every_key_that_is_not_compared_has_a_reason():
    for setting in settings():
        for config in ({}, {"personal": SILO}, {"client_sampler": {"type": "PoissonSampler"}}):
            keys = keys_not_compared(setting, config)
            assert keys.keys() >= NEVER_COMPARED.keys() and all(keys.values())


def test_a_partition_may_have_another_seed_and_omit_defaults():
    seed = {"config__train_dataloader__partition__seed": 4, "data__train__partition_sha256": "b"}
    assert reasons(CIFAR, **seed) == ()
    changes = {"data__train__partition": {"type": "PachinkoPartition", "num_clients": 500}}
    assert reasons("cifar100_pam_c10_r10000_resnet18", **changes) == ()


def test_npz_files_are_comparable_only_where_the_content_is_known():
    assert reasons(CIFAR, data__train__unofficial=True) == ()
    found = reasons("cifar100_pam_c10_r10000_resnet18", data__train__unofficial=True)
    assert found == ("training images: from .npz files, not verified to be the official ones",)


def test_corruptions_must_be_the_official_ones():
    (table,) = (b for b in benchmarks() if b.id == f"{CIFAR}_corrupted")

    def against(content) -> tuple[str, ...]:
        return tuple(find_reasons_against_table(toyresults.parsed(content), table))

    content = toyresults.results(CIFAR, {"test/accuracy": 70.0, "corrupted/accuracy": 60.0})
    corrupted = toyresults.entry("CIFAR10CDataset", {"samples": 950_000})
    content["data"]["test:corrupted"] = corrupted
    assert against(content) == ()
    content["data"]["test:corrupted"] = {**corrupted, "samples": 10_000}
    (reason,) = against(content)
    assert "10000 images instead of 950000" in reason
    content["data"]["test:corrupted"] = corrupted
    content["config"]["val_dataloader"]["corrupted"]["transforms"] = []
    (reason,) = against(content)
    assert reason.startswith("val_dataloader.corrupted.transforms")
    assert select(content["config"])["val_dataloader.corrupted.dataset.type"] == "CIFAR10CDataset"
