"""Every method does what its name says, with every other method that it goes with."""

import contextlib
import fnmatch
import itertools
import random
import re

import pytest
from config_components import SETTINGS, check_components

from fedseg.config.check import complete_config
from fedseg.config.compose import SLOTS, Composition, read_method
from fedseg.config.layers import CONFIGS, get
from fedseg.errors import ConfigError
from fedseg.leaderboard.methods import BATCHNORM

# what a method makes of a setting where it has a meaning
MAKES = {
    "fedavg": {"algorithm.type": "FedAvg"},
    "fedavgm": {"algorithm.type": "FedAvg", "algorithm.server_optim.momentum": 0.9},
    "fedadam": {"algorithm.type": "FedAvg"},
    "fedyogi": {"algorithm.server_optim.type": "Yogi"},
    "fedadagrad": {"algorithm.type": "FedAvg"},
    "fedprox": {"algorithm.type": "FedProx"},
    "scaffold": {"algorithm.type": "SCAFFOLD"},
    "feddyn": {"algorithm.type": "FedDyn", "optim_wrapper.clip_grad.max_norm": 10},
    "adabest": {"algorithm.type": "AdaBest", "algorithm.beta": 0.8},
    "adabest_paper": {"algorithm.type": "AdaBest", "algorithm.beta": 0.9},
    "fedspeed": {"algorithm.all_corrections": True, "optim_wrapper.type": "OptimWrapper"},
    "fedspeed_paper": {"algorithm.type": "FedSpeed", "algorithm.all_corrections": False},
    "fedgamma": {"algorithm.type": "FedGamma", "optim_wrapper.type": "SAMOptimWrapper"},
    "fedsmoo": {"algorithm.type": "FedSMOO", "optim_wrapper.type": "OptimWrapper"},
    "fedcm": {"algorithm.type": "FedCM"},
    "fedacg": {"algorithm.type": "FedACG"},
    "mime": {"algorithm.type": "MIME"},
    "mimelite": {"algorithm.type": "MIMELite"},
    "fedgloss": {"algorithm.type": "FedGloSS"},
    "fedsmoo_wp": {"algorithm.type": "FedSMOO", "algorithm.rho0": 0.001},
    "fedavg_uniform": {"algorithm.type": "FedAvg", "algorithm.uniform": True},
    "fedadam_released": {"algorithm.server_optim.optimizer.type": "Adam"},
    "fedadagrad_released": {"algorithm.server_optim.optimizer.type": "Adagrad"},
    "fedgloss_sgd": {"algorithm.type": "FedGloSS", "optim_wrapper.type": "OptimWrapper"},
    "fedgloss_sam": {"algorithm.type": "FedGloSS", "optim_wrapper.type": "SAMOptimWrapper"},
    "fedsam": {"optim_wrapper.type": "SAMOptimWrapper"},
    "fedasam": {"optim_wrapper.type": "ASAMOptimWrapper"},
    "moon": {"local_loss.type": "MOON", "model.projection": (256, 256)},
    "fedalign": {"local_loss.type": "FedAlign"},
    "gradaug": {"local_loss.type": "GradAug"},
    "fedseg": {"local_loss.type": "FedSeg", "model.projection": (128, 256)},
    "self_training": {"local_loss.type": "SelfTraining"},
    "class_weights": {"local_loss.type": "ClassWeights"},
    "cross_entropy": {"model.loss.type": "CrossEntropy"},
    "ohem": {"model.loss.ratio": 0.25},
    "ohem_mmseg": {"model.loss.type": "OhemCrossEntropy"},
    "dice": {"model.loss.type": "Dice"},
    "lovasz": {"model.loss.type": "LovaszSoftmax"},
    "focal": {"model.loss.gamma": 2.0},
    "feddg_ga": {"algorithm.type": "FedDGGA"},
    "stochdepth": {"model.stochastic_depth": 0.9},
    "swa": {"averaging.type": "SWA"},
    "wima": {"averaging.type": "WIMA"},
    "silobn": {"personal": ["@batchnorm.statistics"]},
    "fedbn": {"personal": ["@batchnorm"]},
    "fedper": {"personal": ["@head"]},
    "lg_fedavg": {"personal": ["@body"]},
    "fedrep": {"algorithm.type": "FedRep", "personal": ["@head"]},
    "fedbabu": {"algorithm.type": "FedBABU", "personal": ["@head"]},
    "ditto": {"algorithm.type": "Ditto"},
    "median": {"robust.type": "CoordinateMedian"},
    "trimmed_mean": {"robust.type": "TrimmedMean"},
    "krum": {"robust.type": "Krum"},
    "topk": {"compression.type": "TopK"},
    "int8": {"compression.type": "Int8"},
    "signsgd": {"compression.type": "SignSGD"},
    "dp_fedavg": {"privacy.type": "DPFedAvg", "client_sampler.type": "PoissonSampler"},
    "sign_flip": {"attack.type": "SignFlip"},
    "label_swap": {"attack.type": "LabelSwap"},
    "mixup": {"train_dataloader.transforms.-1.type": "Mixup"},
    "cutout": {"train_dataloader.transforms.-1.type": "Cutout"},
    "cfsi": {"train_dataloader.dataset.style.type": "CFSIStyle"},
    "lab": {"train_dataloader.dataset.style.type": "LABStyle"},
    "resnet18": {"model.type": "ResNet18GN"},
    "resnet20": {"model.type": "ResNet20GN"},
    "resnet56": {"model.type": "ResNet56"},
    "deeplabv3plus": {"model.type": "Segmentor"},
    "feddrive_heads": {"model.type": "FedDriveBiSeNetV2Segmentor"},
    "mmseg_heads": {"model.type": "BiSeNetV2Segmentor"},
    "released_defects": {},
    "released_split": {"train_dataloader.partition.type": "ReleasedPartition"},
    "segformer": {"model.network.decode_head.type": "SegformerHead"},
    "lora": {"model.lora.r": 8},
    "ffa_lora": {"model.lora.fixed_A": True},
    "fedsa_lora": {"model.lora.r": 8, "personal": ["*.lora_B"]},
    "flexlora": {"model.lora.r": 8, "algorithm.type": "FlexLoRA"},
    "fedex_lora": {"model.lora.r": 8, "algorithm.type": "FedExLoRA"},
    "tiny_vit": {},
    "dinov2_small": {},
    "convnext_tiny": {},
    "efficientnet_lite0": {},
}
# those that change more than a few values of another one
BASES = [s for s in SETTINGS if not s.endswith(("_batch8", "_paper", "_eccv2022"))]
OF_RESNETS = {"fedalign", "stochdepth", "silobn", "fedbn"}
ENCODERS = {"tiny_vit", "dinov2_small", "convnext_tiny", "efficientnet_lite0"}
PRIVATE = {  # algorithms whose epsilon is known
    *("fedavg", "fedavg_uniform", "fedavgm", "fedadam", "fedyogi", "fedadagrad", "fedprox"),
    *("fedadam_released", "fedadagrad_released"),
}
WITHOUT_BOUND = {"median", "trimmed_mean", "krum"}  # on what one client changes
WITHOUT_BOUND |= {"class_weights", "self_training"}
ROBUST = {"median", "trimmed_mean", "krum"}
UNTREATABLE = {"fedcm", "feddg_ga", "fedex_lora", "flexlora"}  # by a robust rule
MOMENTUM = ("scaffold", "fedgamma", "fedcm")


def check(config, names, components=True) -> None:
    if components:
        check_components(config)
    check_rounds_and_clients(config)
    for name in names:
        for key, expected in MAKES[name].items():
            value = config
            for part in key.split("."):
                value = value[int(part)] if part == "-1" else value[part]
            if key == "personal":  # which methods share
                assert {*expected} <= {*value}, f"{config.experiment_name}: {key}"
            else:
                assert value == expected, f"{config.experiment_name}: {key}"


def check_rounds_and_clients(config) -> None:
    """Schedules of a radius end within the run; no more clients take part than there are."""
    for part in ("algorithm", "optim_wrapper"):
        length = config[part].get("rho_rounds", 0)
        assert length <= config.train_cfg.max_rounds, f"{config.experiment_name}: {part}"
    partition = config.train_dataloader.partition
    participants = config.client_sampler.get("clients_per_round", 1)
    clients = 1 if partition.type == "SinglePartition" else partition.get("num_clients")
    assert clients is None or participants <= clients, config.experiment_name


def test_every_method_is_known(slots):
    assert set(slots) == set(MAKES)
    assert set(itertools.chain(*slots.values())) == set(SLOTS)


def test_clients_with_a_model_of_their_own_are_tested_with_it(load, slots):
    """What a method keeps on the clients counts in a view: as trained, or after fine-tuning."""
    tested = set()
    for setting, method in itertools.product(("cifar10_a005", "demo_weather"), slots):
        if not composes(load, setting, method):
            continue
        config = load(setting, method)
        if {*config.get("personal", ())} - BATCHNORM.keys() or method == "ditto":
            assert {"personal", "fine_tuned"} & {*config.val_cfg.views}, method
            tested.add(method)
    assert {"fedper", "lg_fedavg", "fedrep", "fedbabu", "ditto", "fedsa_lora"} <= tested


@pytest.fixture(scope="module")
def works(composed, slots) -> dict[str, list[str]]:
    """The settings in which each method goes alone."""
    settings: dict[str, list[str]] = {name: [] for name in slots}
    for setting, method in itertools.product(BASES, slots):
        try:
            composed(setting, method)
        except ConfigError as error:
            assert method in str(error) and setting in str(error)
            continue
        settings[method].append(setting)
    return settings


def test_a_method_goes_with_the_settings_that_it_is_for(composed, works):
    pairs = [(setting, method) for method in works for setting in works[method]]
    assert 0.4 < len(pairs) / (len(BASES) * len(works)) < 0.8
    for number, (setting, method) in enumerate(pairs):
        config = composed(setting, method)
        check(config, [method], components=number % 10 == 0)  # they take most of the time
        momentum = config.optim_wrapper.optimizer.get("momentum", 0)  # none of Adam
        if method in MOMENTUM and setting != "mnist_a01_scaffold":
            counted = config.algorithm.get("count_momentum", False)
            assert counted == (momentum > 0), f"{setting} {method}"
        assert not (method in ("mime", "mimelite") and momentum), f"{setting} {method}"
    federated = {name for name in BASES if "centralized" not in name}
    for method in ("scaffold", "fedasam", "swa"):
        assert federated <= set(works[method])
    assert "cifar10_a0" not in works["silobn"] + works["fedalign"]
    assert "idda_rainy" not in works["mixup"]
    assert "cifar10_centralized" not in works["scaffold"]


def test_two_methods_go_together_in_any_order_or_contradict_each_other(composed, slots, works):
    """A sample of the pairs, each in a setting where both go alone."""
    random_ = random.Random(0)
    pairs = list(itertools.combinations(sorted(slots), 2))
    for pair in random_.sample(pairs, 300):
        settings = sorted(set(works[pair[0]]) & set(works[pair[1]]))
        if not settings:
            continue
        setting = random_.choice(settings)
        where = f"{setting} --with {' '.join(pair)}"
        try:
            config = composed(setting, *pair)
        except ConfigError as error:
            assert set(pair) <= set(re.findall(r"\w+", str(error))) or setting in str(error), where
            assert contradict(set(pair), slots), where
            continue
        assert config.to_dict() == composed(setting, *reversed(pair)).to_dict(), where
        # of several augmentations only one is the last
        check(config, [name for name in pair if name != "cutout" or "mixup" not in pair])


def contradict(pair: set[str], slots) -> bool:
    """True if it is known why two methods do not go together."""
    first, second = pair
    algorithms = {name for name in pair if "algorithm" in slots[name]}
    reasons = (
        set(slots[first]) & set(slots[second]) - {"augmentation"},
        pair & {"silobn", "fedbn"} and pair & {"resnet18", "resnet20"},
        pair & (OF_RESNETS | {"gradaug"}) and pair & ENCODERS,
        "dp_fedavg" in pair and (pair & WITHOUT_BOUND or algorithms - PRIVATE),
        pair & ROBUST and pair & UNTREATABLE,
    )
    return any(reasons)


def composes(load, *names) -> bool:
    with contextlib.suppress(ConfigError):
        return bool(load(*names))
    return False


def test_named_experiments_are_short_and_named_after_their_composition(load):
    paths = sorted(CONFIGS.glob("*.py"))
    assert len(paths) == 13
    for path in paths:
        composition = Composition(path)
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 6, path
        named = path.stem not in ("demo", "demo_centralized", "demo_cifar", "demo_images")
        config = composition.compose()
        complete_config(config)
        assert composition.name == path.stem
        if named:
            other = load(composition.setting_name, *config.methods)
            assert without_name(config) == without_name(other), path


def without_name(config):
    """What is trained: neither the experiment's name nor the list of its methods."""
    values = config.to_dict()
    return {key: values[key] for key in values if key not in ("experiment_name", "methods")}


# values that belong to a setting: a method that needs others makes another benchmark
OF_A_SETTING = (
    "train_cfg.max_rounds",
    "train_cfg.local_epochs",
    "train_cfg.local_steps",
    "train_cfg.amp",
    "train_dataloader.batch_size",
    "train_dataloader.drop_last",
    "client_sampler.clients_per_round",
)


def test_no_method_changes_the_protocol():
    for path in (CONFIGS / "methods").glob("*.py"):
        method = read_method(path)
        tables = [method.layer.values, *(row.values or {} for row in method.rows)]
        for values in tables:
            for key in OF_A_SETTING:
                assert get(values, key) is None, f"{path}: {key}"


def test_nothing_else_is_at_the_top(slots):
    assert {path.name for path in CONFIGS.iterdir() if path.suffix != ".py"} <= {
        *("README.md", "_base_", "methods", "settings", "weights", "__pycache__"),
    }


def test_every_row_of_a_method_holds_somewhere(slots):
    """In a setting or base of the suite, with methods that exist."""
    names = {
        path.stem for place in ("settings", "_base_") for path in (CONFIGS / place).glob("*.py")
    }
    for path in (CONFIGS / "methods").glob("*.py"):
        for row in read_method(path).rows:
            assert fnmatch.filter(names, row.setting), f"{path}: {row.setting}"
            assert row.others <= set(slots), f"{path}: {row.others}"
