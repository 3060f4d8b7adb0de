"""What counts as comparable, and that the configs of the repository are the benchmarks'."""

import json
from pathlib import Path

import pytest
import toyresults
from mmengine.config import Config

from fedseg.leaderboard.benchmarks import (
    DATASETS,
    IDDA_STEPS,
    MODELS,
    benchmarks,
    reasons_against,
    settings,
)
from fedseg.leaderboard.reference import read_published
from fedseg.runs.schema import Results, from_plain, migrated

CONFIGS = Path(__file__).parents[2] / "configs"
RAINY = "idda_rainy_heterogeneous"
CIFAR = "cifar10_a005_c5_cnn"
IDDA_FIGURES = {"unseen/mIoU": 50.0, "seen/mIoU": 60.0}
FIGURES = {"test/accuracy": 70.0}


def parsed(content) -> Results:
    return from_plain(Results, migrated(content, Path("results.json")), "results.json")


def reasons(id_: str, figures=FIGURES, **changes) -> tuple[str, ...]:
    results = parsed(toyresults.results(id_, figures, **changes))
    return reasons_against(results, toyresults.setting(id_))


@pytest.mark.parametrize("setting", settings(), ids=lambda s: s.id)
def test_a_run_as_the_benchmark_wants_it_is_comparable(setting):
    figures = {f"{domain}/mIoU": 50.0 for domain in setting.domains}
    assert reasons(setting.id, figures) == ()


def test_synthetic_data_are_never_comparable():
    for setting in settings():
        figures = {f"{domain}/mIoU": 50.0 for domain in setting.domains}
        content = toyresults.synthetic(toyresults.results(setting.id, figures))
        (reason,) = reasons_against(parsed(content), setting)
        assert reason.startswith("synthetic data: the images are rendered")
        content = toyresults.results(setting.id, figures)
        content["data"][f"test:{setting.domains[0]}"]["synthetic"] = True  # one set is enough
        assert reasons_against(parsed(content), setting) == (reason,)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"rounds": 300, "completed_rounds": 300}, "fewer rounds: 300 instead of 1500"),
        ({"rounds": 3000}, "more rounds: 3000 instead of 1500"),
        (
            {"clients_per_round": {"min": 10, "max": 10}},
            "other participation: 10 clients a round instead of 5",
        ),
        (
            {"clients_per_round": {"min": 4, "max": 5}},
            "other participation: 4 to 5 clients a round instead of 5",
        ),
        (
            {"data__train__partition_sha256": "a" * 64},
            "other split: its checksum is not the published one's",
        ),
        ({"data__train__clients": 70}, "other split: 70 clients instead of 69"),
        ({"data__train__samples": 138}, "other training images: 138 instead of 3312"),
        ({"data__test_unseen__samples": 35}, "other test images (unseen): 35 instead of 2100"),
        (
            {"data__test_seen__split_checksum": "a" * 64},
            "other test images (seen): their checksum is another",
        ),
        (
            {"data__test_seen__steps": [IDDA_STEPS[0]]},
            "test images (seen) are prepared in another way",
        ),
        ({"data__test_seen": ...}, "no test set 'seen'"),
        (
            {"model__type": "Segmentor", "model__network": "EncoderDecoder"},
            "other model: EncoderDecoder instead of bisenetv2",
        ),
        (
            {"last_rounds__rounds": 50},
            "other metric: the mean over the last 50 rounds instead of 100",
        ),
        (
            {"last_rounds__evaluations": 2},
            "evaluations are missing: 2 in the last 100 rounds, at least 20 are needed",
        ),
    ],
)
def test_reasons_in_words_on_feddrive(changes, expected):
    assert reasons(RAINY, IDDA_FIGURES, **changes) == (expected,)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"data__train__partition__alpha": 0.5}, "other split: alpha 0.5 instead of 0.05"),
        (
            {"data__train__partition": {"type": "DirichletClassPartition", "alpha": 0.05}},
            "other split: DirichletClassPartition instead of DirichletPartition",
        ),
        (
            {"data__train__partition": None},
            "other split: how clients were drawn is not recorded",
        ),
        ({"data__train__clients": 50}, "other split: 50 clients instead of 100"),
        (
            {"data__test_test__content_sha256": "a" * 64},
            "other test images (test): their checksum is another",
        ),
        (
            {"data__train__content_sha256": None},
            "the checksum of training images is not recorded",
        ),
        ({"model__type": "ResNet18GN"}, "other model: resnet18_gn instead of cnn"),
    ],
)
def test_reasons_in_words_on_cifar(changes, expected):
    assert reasons(CIFAR, **changes) == (expected,)


@pytest.mark.parametrize("id_", [RAINY, CIFAR])
def test_centralised_training_is_told(id_):
    figures = IDDA_FIGURES if id_ == RAINY else FIGURES
    changes = {"data__train__partition": {"type": "SinglePartition"}, "data__train__clients": 1}
    assert "centralised training: one client holds every image" in reasons(id_, figures, **changes)


def test_every_reason_is_told():
    found = reasons(CIFAR, data__train__samples=1000, rounds=500, data__train__clients=10)
    assert len(found) == 3


def test_the_seed_of_a_draw_does_not_matter():
    assert reasons(CIFAR, data__train__partition__seed=4, data__train__partition_sha256="b") == ()


def test_options_that_a_config_leaves_out_have_their_defaults():
    changes = {"data__train__partition": {"type": "PachinkoPartition"}}
    assert reasons("cifar100_pam_c10_r10000_resnet18", **changes) == ()


def test_corruptions_must_be_the_official_ones():
    (table,) = (b for b in benchmarks() if b.id == f"{CIFAR}_corrupted")
    content = toyresults.results(CIFAR, {**FIGURES, "corrupted/accuracy": 60.0})
    corrupted = toyresults.entry("CIFAR10CDataset", {"samples": 950_000})
    content["data"]["test:corrupted"] = corrupted
    assert table.reasons_against(parsed(content)) == ()
    for changes, expected in (
        ({"generated": ["fog", "snow"]}, "2 of the corruptions were made here"),
        ({"generated": None}, "not recorded"),
        ({"samples": 10_000}, "other corruptions: 10000 images instead of 950000"),
    ):
        content["data"]["test:corrupted"] = {**corrupted, **changes}
        (reason,) = table.reasons_against(parsed(content))
        assert expected in reason


# ---------------------------------------------------------------- the list


def test_ids_are_unique_and_fit_for_an_address():
    found = [b.id for b in benchmarks()]
    assert len(set(found)) == len(found)
    assert all(id_.isidentifier() and id_.isascii() for id_ in found)


@pytest.mark.parametrize(
    "id_",
    [
        *(f"cityscapes_{d}" for d in ("uniform", "heterogeneous", "class_imbalance")),
        *(f"idda_{s}_heterogeneous" for s in ("country", "rainy", "bus")),
        *("camvid", "landmarks_c10_r3000", "mnist_a01_r3"),
        *(f"cifar10_{a}_c{c}_cnn" for a in ("a0", "a005", "a100") for c in (5, 10, 20)),
        *(f"cifar100_{a}_c{c}_cnn" for a in ("a0", "a05", "a1000") for c in (5, 10, 20)),
        *("cifar100_pam_c10_r10000_resnet18", "cifar10_a0_c5_cnn_corrupted"),
        *("cifar10_a0_c5_cnn_traffic", "cifar100_a05_c10_resnet18_traffic"),
    ],
)
def test_the_benchmarks_of_the_papers_are_there(id_):
    assert id_ in {b.id for b in benchmarks()}


def test_published_figures_of_benchmarks_are_joined():
    """All but variants, centralised training and data sets that are not here."""
    left = [
        r
        for r in read_published()
        if r.metric in ("accuracy", "miou")
        and r.variant is None
        and r.split is not None
        and r.dataset not in ("femnist", "imagenet200")
        and not any(b.matches(r) for b in benchmarks())
    ]
    # the course report's accuracies after the first and second of three rounds
    assert {(r.paper, r.rounds) for r in left} == {("Course report", 1), ("Course report", 2)}


def test_a_target_is_what_fedavg_reaches_in_the_same_paper():
    targets = {b.id: b.target for b in benchmarks() if b.target is not None}
    assert len(targets) == 7
    assert targets["cifar10_a0_c5_cnn_traffic"] == 59.9
    assert targets["landmarks_c50_r1300_traffic"] == 56.3


def of_config(path: Path) -> tuple:
    """What a config has of a setting."""
    config = Config.fromfile(path)
    train = config.train_dataloader
    split = (train.dataset.get("split") or "").removesuffix("train").strip("/")
    recipe = {k: v for k, v in train.partition.items() if k not in ("num_clients", "key", "seed")}
    return (
        train.dataset.type,
        split.removeprefix("splits").strip("/"),
        {} if split else recipe,  # a folder of split files says it all
        MODELS.get(config.model.type),
        config.client_sampler.clients_per_round,
        config.train_cfg.max_rounds,
        config.train_cfg.local_epochs,
    )


def of_setting(setting) -> tuple:
    return (
        DATASETS[setting.dataset][0],
        setting.place,
        setting.recipe,
        setting.model,
        setting.clients_per_round,
        setting.rounds,
        setting.local_epochs,
    )


def test_the_configs_are_those_of_benchmarks():
    """FedAvg's, and those with a schedule of their own; a variant inherits one of them."""
    paths = {*CONFIGS.glob("*_fedavg.py"), *CONFIGS.glob("*_fedavg_resnet*.py")}
    paths |= {CONFIGS / f"{n}.py" for n in ("mnist_a2_fedsam", "landmarks_fedgloss_sam")}
    known = [(of_setting(s), s.id) for s in settings()]
    apart, used = [], set()
    for path in sorted(paths):
        found = of_config(path)
        fits = [id_ for setting, id_ in known if setting == found]
        used.update(fits)
        if not fits:
            apart.append(path.stem)
    # FedAvg on the network of the local losses; rendered streets; one digit a client, ten clients
    assert apart == ["cifar10_a005_fedavg_resnet56", "demo_leaderboard_fedavg", "mnist_a0_fedavg"]
    assert {"camvid", "mnist_a2_r3", "landmarks_c50_r1300", RAINY, CIFAR} <= used
    assert "cifar100_pam_c100_r10000_resnet20" in used and len(used) > 30


def test_test_images_are_prepared_as_the_configs_do_it():
    for name, expected in (
        ("idda_rainy_fedavg", toyresults.setting(RAINY).test_steps),
        ("cityscapes_uniform_fedavg", toyresults.setting("cityscapes_uniform").test_steps),
        ("camvid_fedavg", toyresults.setting("camvid").test_steps),
    ):
        for loader in Config.fromfile(CONFIGS / f"{name}.py").val_dataloader.values():
            steps = json.loads(json.dumps(loader["dataset"].get("pipeline", [])))
            assert steps == list(expected)
