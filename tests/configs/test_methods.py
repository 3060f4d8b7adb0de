"""Every method does what its name says, with every other method that it goes with."""

import contextlib
import fnmatch
import itertools
import random

from config_components import SETTINGS, check_components

from fedseg.config.layers import CONFIGS
from fedseg.config.methods import SLOTS, Composition, read_method
from fedseg.errors import ConfigError
from fedseg.leaderboard.methods import BATCHNORM
from fedseg.runner.config import complete_config

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
    "paper": {"train_cfg.max_rounds": 1500},
    "released": {"train_cfg.max_rounds": 1600},
    "released_defects": {},
    "eccv2022": {"val_dataloader.test.transforms.-1.type": "Normalize"},
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
# as the papers have it: each of these with each
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


def test_every_method_in_every_setting_works_or_is_refused_with_both_names(load, slots):
    refused = set()
    for number, (setting, method) in enumerate(itertools.product(SETTINGS, slots)):
        try:
            config = load(setting, method)
        except ConfigError as error:
            assert method in str(error) and setting in str(error)
            refused.add((setting, method))
            continue
        check(config, [method], components=number % 4 == 0)  # they take most of the time
        momentum = config.optim_wrapper.optimizer.momentum
        if method in MOMENTUM:
            counted = config.algorithm.get("count_momentum", False)
            assert counted == (momentum > 0), f"{setting} {method}"
        assert not (method in ("mime", "mimelite") and momentum), f"{setting} {method}"
    assert 0.2 < len(refused) / (len(SETTINGS) * len(slots)) < 0.6
    federated = [name for name in SETTINGS if "centralized" not in name]
    assert not {(s, m) for s in federated for m in ("scaffold", "fedasam", "swa")} & refused
    assert {("cifar10_a0", "silobn"), ("cifar10_a0", "fedalign")} < refused
    assert {("idda_rainy", "mixup"), ("cifar10_centralized", "scaffold")} < refused


def test_every_pair_of_methods_works_somewhere_in_any_order_or_contradicts(load, slots):
    """Each composition has as many methods as fit, so that few of them cover all pairs."""
    seed = 0
    random_ = random.Random(seed)
    pairs = {frozenset(pair) for pair in itertools.combinations(slots, 2)}
    todo, compositions, contradictions = sorted(map(sorted, pairs)), 0, set()
    works = {name: {s for s in SETTINGS if composes(load, s, name)} for name in slots}
    covered: set[frozenset] = set()
    for pair in todo:
        if frozenset(pair) in covered:
            continue
        shared = set(slots[pair[0]]) & set(slots[pair[1]]) - {"augmentation"}
        both = sorted(works[pair[0]] & works[pair[1]])
        # of one slot, or without a setting for both, they contradict each other anywhere
        settings = SETTINGS if shared or not both else both
        for setting in random_.sample(settings, 2 if settings is SETTINGS else len(both)):
            try:
                load(setting, *pair)
            except ConfigError as error:
                message = str(error)
                continue
            break
        else:
            assert all(name in message for name in pair) or setting in message
            contradictions.add(frozenset(pair))
            continue
        chosen = list(pair)
        for name in random_.sample(sorted(slots), len(slots)):
            new = {frozenset((name, other)) for other in chosen} - covered
            taken = {slot for other in chosen for slot in slots[other]} - {"augmentation"}
            fits = setting in works[name] and not taken & set(slots[name])
            if name not in chosen and new and fits:
                try:
                    load(setting, *chosen, name)
                except ConfigError:
                    continue
                chosen.append(name)
        covered |= {frozenset(two) for two in itertools.combinations(chosen, 2)}
        shuffled = random_.sample(chosen, len(chosen))
        where = f"seed {seed}: {setting} --with {' '.join(shuffled)}"
        config = load(setting, *shuffled)
        assert config.to_dict() == load(setting, *chosen).to_dict(), where
        assert config.to_dict() == load(setting, *config.methods).to_dict(), where
        # of several augmentations only one is the last
        check(config, [name for name in chosen if name != "cutout" or "mixup" not in chosen])
        compositions += 1
    # eight pairs a composition, at least
    assert compositions < len(pairs) / 8 and covered | contradictions == pairs
    unexplained = set()
    for pair in contradictions:
        one, other = sorted(pair)
        same = set(slots[one]) & set(slots[other]) - {"augmentation"}
        no_setting = not works[one] & works[other]
        no_batchnorm = pair & {"silobn", "fedbn"} and pair & {"resnet18", "resnet20"}
        # settings with released splits have the CNN, and FedAlign's have none
        no_split = "released_split" in pair and pair & OF_RESNETS
        no_resnet = pair & (OF_RESNETS | {"gradaug"}) and pair & ENCODERS
        algorithms = {name for name in pair if "algorithm" in slots[name]}
        no_bound = "dp_fedavg" in pair and (pair & WITHOUT_BOUND or algorithms - PRIVATE)
        no_rule = pair & ROBUST and pair & UNTREATABLE
        if not (same or no_setting or no_batchnorm or no_split or no_resnet or no_bound or no_rule):
            unexplained.add((one, other))
    assert not unexplained, "; ".join(map(str, sorted(unexplained)))


def composes(load, *names) -> bool:
    with contextlib.suppress(ConfigError):
        return bool(load(*names))
    return False


def test_named_experiments_are_short_and_named_after_their_composition(load):
    paths = sorted(CONFIGS.glob("*.py"))
    assert 35 <= len(paths) <= 50
    for path in paths:
        composition = Composition(path)
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 6, path
        named = path.stem not in ("demo", "demo_centralized", "demo_cifar", "demo_images")
        assert composition.is_canonical == named, path
        config = composition.compose()
        complete_config(config)
        assert composition.name == path.stem
        if named:
            other = load(composition.setting, *config.methods)
            other.pop("experiment_name")
            assert config.to_dict() == other.to_dict(), path


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
