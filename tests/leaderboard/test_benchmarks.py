"""The list of benchmarks, and that the configs of the repository train them."""

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
import torch
import toyresults

from fedseg.leaderboard.benchmarks import DATASETS, MODELS, benchmarks, records_of, settings
from fedseg.leaderboard.comparable import other_fields
from fedseg.leaderboard.reference import read_published
from fedseg.registry import MODELS as NETWORKS
from fedseg.registry import build
from fedseg.runner.compose import compose, setting_file
from fedseg.runner.config import complete_config
from fedseg.runs.protocol import protocol_of

CONFIGS = Path(__file__).parents[2] / "configs"
RAINY = "idda_rainy_heterogeneous"
CIFAR = "cifar10_a005_c5_cnn"


def test_ids_are_unique_and_valid_in_a_url():
    found = [b.id for b in benchmarks()]
    assert len(set(found)) == len(found) == 120
    assert len({b.setting.id for b in benchmarks()}) == len(settings()) == 74
    assert all(id_.isidentifier() and id_.isascii() for id_ in found)
    assert len({b.title for b in benchmarks()}) == len(found)


def test_the_benchmarks_of_the_papers_are_there():
    assert {
        *(f"cityscapes_{d}" for d in ("uniform", "heterogeneous", "class_imbalance")),
        *(f"idda_{s}_heterogeneous" for s in ("country", "rainy", "bus")),
        *("camvid", "landmarks_c10_r3000", "mnist_a01_r3"),
        *(f"cifar10_{a}_c{c}_cnn" for a in ("a0", "a005", "a100") for c in (5, 10, 20)),
        *(f"cifar100_{a}_c{c}_cnn" for a in ("a0", "a05", "a1000") for c in (5, 10, 20)),
        *("cifar100_pam_c10_r10000_resnet18", "cifar10_a0_c5_cnn_corrupted"),
        *("cifar10_a0_c5_cnn_traffic", "cifar100_a05_c10_resnet18_traffic"),
    } <= {b.id for b in benchmarks()}


def test_the_facts_of_a_setting():
    found = {s.id: s for s in settings()}
    rainy, pam = found[RAINY], found["cifar100_pam_c10_r5000_resnet18"]
    assert rainy.title == "IDDA rainy, heterogeneous clients, released protocol"
    assert rainy.split == {"kind": "heterogeneous", "shift": "rainy"} and rainy.recipe == {}
    assert rainy.place == "heterogeneous/rainy" and rainy.n_clients == 69
    assert (rainy.rounds, rainy.clients_per_round, rainy.local_epochs) == (1600, 5, 2)
    paper = found[f"{RAINY}_paper"]
    assert paper.title == "IDDA rainy, heterogeneous clients, ECCV 2022 protocol"
    assert paper.rounds == 1500 and paper.known == rainy.known and paper.place == rainy.place
    assert (rainy.window, rainy.evaluations, rainy.domains) == (100, 20, ("unseen", "seen"))
    assert found["cityscapes_uniform"].split == {"kind": "uniform", "shift": None}
    assert pam.title == "CIFAR-100, PAM, ResNet-18, 10 of 500 clients, 5,000 rounds"
    assert pam.recipe == {"type": "PachinkoPartition", "alpha": 0.1, "beta": 10.0}
    assert (found["camvid"].window, found["camvid"].evaluations) == (50, 10)
    assert found["mnist_a15_r5"].window is None and found["mnist_a15_r5"].split["alpha"] == 1.5


def test_published_numbers_of_benchmarks_are_joined():
    """All but variants, centralized training and data sets that are not here."""
    joined = {id(r) for b in benchmarks() for r in records_of(b.setting) if b.matches(r)}
    left = [
        r
        for r in read_published()
        if r.metric in ("accuracy", "miou")
        and r.variant is None
        and r.split is not None
        and r.dataset not in ("femnist", "imagenet200")
        and id(r) not in joined
    ]
    # the course report's accuracies after the first and second of three rounds
    assert {(r.paper, r.rounds) for r in left} == {("Course report", 1), ("Course report", 2)}


def test_a_target_is_what_fedavg_reaches_in_the_same_paper():
    targets = {b.id: b.target for b in benchmarks() if b.target is not None}
    assert len(targets) == 7
    assert targets["cifar10_a0_c5_cnn_traffic"] == 59.9
    assert targets["landmarks_c50_r1300_traffic"] == 56.3


def of_config(name: str, *methods: str, options: Mapping = MappingProxyType({})) -> tuple:
    """What an experiment has of a benchmark's setting."""
    config = compose(setting_file(name), methods)
    config.merge_from_dict(dict(options))
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
        DATASETS[setting.dataset]["class"],
        setting.place,
        setting.recipe,
        setting.model,
        setting.clients_per_round,
        setting.rounds,
        setting.local_epochs,
    )


def test_the_configs_are_those_of_benchmarks():
    """Every federated setting, and methods with a schedule of their own."""
    names = [(path.stem,) for path in sorted((CONFIGS / "settings").glob("*.py"))]
    names = [name for name in names if "centralized" not in name[0]]
    names += [("mnist_a2", "fedsam"), ("landmarks", "fedgloss_sam")]
    feddrive = [name for (name, *_) in names if name.startswith(("idda_", "cityscapes_"))]
    names += [(name, "paper") for name in feddrive]
    cifar = [name for (name, *_) in names if name.startswith("cifar") and "_a" in name]
    names += [(name, "resnet20") for name in (*cifar, "cifar100_pam")]
    names += [("cifar10_a005", "resnet18"), ("cifar100_a05", "resnet18")]
    known = [(of_setting(s), s.id) for s in settings()]
    apart, used = [], set()
    for name in names:
        found = of_config(*name)
        fits = [id_ for setting, id_ in known if setting == found]
        used.update(fits)
        if not fits:
            apart.append("_".join(name))
    # rendered data; one digit a client, ten clients; WIMA has no nearly homogeneous clients
    assert apart == [
        "demo_leaderboard",
        "demo_shapes",
        "demo_streets",
        "demo_weather",
        "mnist_a0",
        "cifar100_a1000_resnet20",
        "cifar10_a100_resnet20",
    ]
    assert {"camvid", "mnist_a2_r3", "landmarks_c50_r1300", RAINY, CIFAR} <= used
    assert "cifar100_pam_c100_r10000_resnet20" in used and len(used) > 30
    assert {s.id for s in settings() if s.protocol} <= used


@pytest.mark.parametrize("methods", ["", "silobn", "cfsi", "silobn lab", "fedavgm", "fedadam"])
@pytest.mark.parametrize("protocol", ["released", "paper"])
@pytest.mark.parametrize("setting", ["cityscapes_heterogeneous", "idda_rainy", "idda_bus_uniform"])
def test_the_protocols_are_those_of_the_configs(setting, protocol, methods):
    config = complete_config(compose(setting_file(setting), [*methods.split(), protocol]))
    id_ = {"idda_rainy": RAINY}.get(setting, setting) + {"released": "", "paper": "_paper"}[
        protocol
    ]
    content = toyresults.results(
        id_, {}, batchnorm=config.get("batchnorm"), data__train__style=style_of(config)
    )
    assert protocol_of(config) == content["protocol"]


@pytest.mark.parametrize(
    ("methods", "fields"),
    [
        ("mmseg_heads", {"network"}),
        ("silobn released_defects", {"batchnorm_layers", "shuffle", "test_drop_last"}),
        ("lab released_defects", {"style_bank", "shuffle"}),
    ],
)
def test_other_methods_differ_in_the_fields_that_they_change(methods, fields):
    config = complete_config(compose(setting_file("idda_rainy"), methods.split()))
    made = {"batchnorm": config.get("batchnorm"), "data__train__style": style_of(config)}
    content = toyresults.results(RAINY, {}, **made, protocol=protocol_of(config))
    found = other_fields(toyresults.parsed(content), toyresults.setting(RAINY))
    assert set(found) == fields


@pytest.mark.parametrize("methods", ["fedsam", "fedasam swa", "silobn fedasam", "fedavg swa"])
def test_rows_of_the_paper_have_its_protocol_by_default(methods):
    for setting in ("cityscapes_uniform", "idda_country"):
        for protocol, expected in ((methods, "paper"), (f"{methods} released", "released")):
            config = compose(setting_file(setting), protocol.split())
            wanted = {"paper": 1500, "released": 1600}[expected]
            assert protocol_of(complete_config(config))["rounds"] == wanted


def test_a_benchmarks_command_trains_its_setting():
    for setting in settings():
        name, *words = setting.command.split()
        kind, *words = words or [""]
        options = {k: literal(v) for k, v in (w.split("=") for w in words if "=" in w)}
        methods = words if kind == "--with" else ()
        assert kind in ("", "--with", "--cfg-options")
        assert of_config(name, *methods, options=options) == of_setting(setting), setting.id
        protocol = methods[0] if setting.protocol else None
        assert protocol == (setting.protocol and setting.protocol.name)


def literal(text: str):
    try:
        return ast.literal_eval(text)
    except ValueError:
        return text


def test_the_sizes_of_networks_are_those_of_the_configs():
    sizes = {}
    for setting in settings():
        dataset = (setting.dataset, setting.model)
        name, *words = setting.command.split()
        methods = words[1:] if words[:1] == ["--with"] else []
        if dataset in sizes:
            continue
        model = complete_config(compose(setting_file(name), methods)).model
        with torch.device("meta"):
            network = build(NETWORKS, model, "model")
        sizes[dataset] = sum(p.numel() for p in network.parameters() if p.requires_grad)
    stated = {(d, m): n for d, f in DATASETS.items() for m, n in f["parameters"].items()}
    assert sizes == stated


def style_of(config) -> dict | None:
    style = config.train_dataloader.dataset.get("style")
    return style and style.to_dict()


def test_test_images_are_prepared_as_the_configs_do_it():
    by_id = {setting.id: setting for setting in settings()}
    for name, id_ in (
        ("idda_rainy", RAINY),
        ("cityscapes_uniform", "cityscapes_uniform"),
        ("camvid", "camvid"),
    ):
        for loader in compose(setting_file(name)).val_dataloader.values():
            steps = json.loads(json.dumps(loader["dataset"].get("pipeline", [])))
            assert steps == list(by_id[id_].test_steps)
