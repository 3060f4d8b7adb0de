"""The list of benchmarks, and that the configs of the repository train them."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import benchmark_protocols as tool
import pytest
import torch
import toyresults

from fedseg.config.compose import Composition, setting_file
from fedseg.errors import ConfigError
from fedseg.leaderboard.benchmarks import DATASETS, benchmarks, records_of, settings
from fedseg.leaderboard.comparable import ComparedRun, other_split, protocol_differences
from fedseg.leaderboard.reference import read_published
from fedseg.registry import MODELS as NETWORKS
from fedseg.registry import build

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs"
RAINY = "idda_rainy_heterogeneous"
CIFAR = "cifar10_a005_c5_cnn"


def test_ids_are_unique_and_valid_in_a_url():
    found = [b.id for b in benchmarks()]
    assert len(set(found)) == len(found) == 119
    assert len({b.setting.id for b in benchmarks()}) == len(settings()) == 73
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
    assert rainy.split == {"kind": "heterogeneous", "shift": "rainy"} and rainy.n_clients == 69
    assert (rainy.rounds, rainy.clients_per_round, rainy.local_epochs) == (1600, 5, 2)
    paper = found[f"{RAINY}_paper"]
    assert paper.title == "IDDA rainy, heterogeneous clients, ECCV 2022 protocol"
    assert paper.rounds == 1500 and paper.known == rainy.known
    assert (rainy.window, rainy.evaluations, rainy.domains) == (100, 20, ["unseen", "seen"])
    assert found["cityscapes_uniform"].split == {"kind": "uniform", "shift": None}
    assert pam.title == "CIFAR-100, PAM, ResNet-18, 10 of 500 clients, 5,000 rounds"
    assert pam.split == {"kind": "pam", "alpha": 0.1} and pam.n_clients == 500
    assert (found["camvid"].window, found["camvid"].evaluations) == (50, 10)
    assert found["mnist_a15_r5"].window is None and found["mnist_a15_r5"].split["alpha"] == 1.5


def test_published_numbers_of_benchmarks_are_joined():
    """All but variants, centralized training and data sets that are not here."""
    joined = set()
    for benchmark in benchmarks():
        for record in records_of(benchmark.setting):
            if benchmark.column_of(record) is not None and benchmark.is_ranked(record):
                joined.add(id(record))
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


def test_a_benchmark_is_what_its_command_composes():
    text = tool.FILE.read_text(encoding="utf-8")
    assert tool.text() == text, "run python docs/site/tool.py"


def settings_of(config: Mapping) -> list[str]:
    """The settings in which a composed config is comparable, as far as the config says."""
    dataset = config["train_dataloader"]["dataset"]["type"]
    of_data = [s for s in settings() if DATASETS[s.dataset]["class"] == dataset]
    fields = {"personal": config.get("personal")}
    ids = []
    for setting in of_data:
        content = toyresults.results(setting.id, {}, **fields) | {"config": config}
        run = ComparedRun(toyresults.parsed(content))
        domains = [domain for domain in setting.domains if domain in run.results.tests]
        is_split = run.protocol.get(SPLIT) == setting.protocol.get(SPLIT)
        is_split &= other_split(run, setting) is None
        if is_split and not protocol_differences(run, setting, domains):
            ids.append(setting.id)
    return ids


def test_the_settings_are_those_of_benchmarks():
    """Every federated one that a paper has, with FedAvg; SiloBN's batches of 8 with SiloBN."""
    names = [path.stem for path in sorted((CONFIGS / "settings").glob("*.py"))]
    names = [name for name in names if "centralized" not in name]
    places = {name: settings_of(tool.composed(name)) for name in names}
    named = {name for setting in settings() for name in setting.configs}
    for setting in settings():
        for name in set(setting.configs) & places.keys():
            assert name.endswith("_batch8") or places[name], name
    silobn = {name for name in names if name.endswith("_batch8")}
    assert {name for name in names if not places[name]} - silobn == set(names) - named
    for name in silobn:
        assert settings_of(tool.composed(f"{name} --with silobn")), name
    assert places["idda_rainy"] == [RAINY] and places["idda_rainy_paper"] == [f"{RAINY}_paper"]
    assert places["cifar10_a005"] == places["cifar10_a005_eccv2022"] == [CIFAR]
    assert places["camvid"] == ["camvid"]
    assert places["mnist_a2_fedsam"] == ["mnist_a2_r3"]
    assert places["cifar100_pam_resnet20"] == ["cifar100_pam_c100_r10000_resnet20"]
    assert places["landmarks_fedgloss"] == ["landmarks_c50_r1300"]


SPLIT = "train_dataloader.dataset.split"
ENCODERS = {"convnext_tiny", "dinov2_small", "efficientnet_lite0", "tiny_vit"}
# networks of other benchmarks, what the released code does wrong, SiloBN without its batches of 8
OTHER_PROTOCOL = {
    "idda_rainy": {
        *("silobn", "deeplabv3plus", "mmseg_heads", "released_defects", "segformer"),
        *("cross_entropy", "dice", "focal", "lovasz", "ohem_mmseg"),
    },
    "cifar10_a005": {"resnet18", "resnet20", "resnet56"},
    "cifar100_c16": {"resnet18", "resnet20"},
}


@pytest.mark.parametrize("setting", OTHER_PROTOCOL)
def test_methods_leave_the_protocol_alone(setting):
    """Protocols are settings of their own."""
    known = Composition(setting_file(setting)).method_files
    own = {
        "idda_rainy": [RAINY],
        "cifar10_a005": [CIFAR],
        "cifar100_c16": ["cifar100_a05_k16_c16_r25_resnet56"],
    }[setting]
    other = set()
    for method in known:
        with suppress(ConfigError):  # it has no meaning here
            if settings_of(tool.composed(f"{setting} --with {method}")) != own:
                other.add(method)
    assert other == OTHER_PROTOCOL[setting] | ENCODERS


def test_defects_of_the_released_code_are_told():
    config = tool.composed("idda_rainy --with lab released_defects")
    content = toyresults.results(RAINY, {})
    run = ComparedRun(toyresults.parsed({**content, "config": config}))
    differences = protocol_differences(run, toyresults.setting(RAINY), ("seen", "unseen"))
    keys = {"train_dataloader.dataset.style.fixed_half", "train_dataloader.shuffle"}
    keys |= {f"val_dataloader.{domain}.drop_last" for domain in ("seen", "unseen")}
    assert keys <= differences.keys()


def test_the_sizes_of_networks_are_those_of_the_configs():
    sizes = {}
    for setting in settings():
        if (setting.dataset, setting.model) not in sizes:
            with torch.device("meta"):
                network = build(NETWORKS, tool.composed(setting.command)["model"], "model")
            count = sum(p.numel() for p in network.parameters() if p.requires_grad)
            sizes[setting.dataset, setting.model] = count
    stated = {(d, m): n for d, f in DATASETS.items() for m, n in f["parameters"].items()}
    assert sizes == stated
