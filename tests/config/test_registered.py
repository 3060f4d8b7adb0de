"""Every parameter of every registered class: one sentence names the field of a wrong value."""

import math
import re
from typing import Any

import pytest
from typing_extensions import is_protocol

import fedseg.registry
from fedseg.config.arguments import check_value, read_signature
from fedseg.errors import ConfigError
from fedseg.registry import LazyRegistry, build, check_component

REGISTRIES = {n: one for n, one in vars(fedseg.registry).items() if isinstance(one, LazyRegistry)}
CLASSES = [(name, kind) for name, one in REGISTRIES.items() for kind in one.modules]
# of these, every number has bounds
BOUNDED = ("ALGORITHMS", "LOCAL_LOSSES", "OPTIM_WRAPPERS", "SAMPLERS", "SERVER_OPTIMIZERS")
WRONG = ["no such value", -1, 0, 0.5, 1, 2, 1e40, math.nan, True, [], [["x"]], {"x": 1}, None]


def hint_fits(hint: Any, value: Any) -> bool:
    try:
        check_value("field", value, hint)
    except ConfigError:
        return False
    return True


def parameters(registry: str, kind: str) -> dict[str, Any]:
    """The types of a class's arguments by name, without those that take anything."""
    signature = read_signature(REGISTRIES[registry].get(kind))
    return {n: h for n, h in signature.hints.items() if h is not Any and not is_protocol(h)}


@pytest.mark.parametrize(("registry", "kind"), CLASSES)
def test_a_wrong_value_is_told_in_one_sentence(registry, kind):
    signature = read_signature(REGISTRIES[registry].get(kind))
    needless = set(signature.hints)
    for name, hint in parameters(registry, kind).items():
        default = signature.defaults.get(name, ...)
        wrong = [value for value in WRONG if not hint_fits(hint, value) and value is not default]
        assert wrong, name
        for value in wrong:
            with pytest.raises(ConfigError) as error:
                config = {"type": kind, name: value}
                check_component(REGISTRIES[registry], config, "field", optional=needless)
            assert re.match(rf"field\.{name}[:.\[]", str(error.value))
            assert "\n" not in str(error.value)
        if default is not ...:
            config = {"type": kind, name: default}
            check_component(REGISTRIES[registry], config, "field", optional=needless)


@pytest.mark.parametrize(("registry", "kind"), [c for c in CLASSES if c[0] in BOUNDED])
def test_every_number_has_bounds(registry, kind):
    for name, hint in parameters(registry, kind).items():
        if hint_fits(hint, -1e9) or hint_fits(hint, -(10**9)):
            pytest.fail(f"{name}: any number fits")


OUTSIDE = {
    ("ALGORITHMS", "AdaBest"): {"mu": -0.1, "beta": 1.1},
    ("ALGORITHMS", "FedACG"): {"lam": 1.0, "beta": -0.1},
    ("ALGORITHMS", "FedCM"): {"alpha": 0.0, "server_optim": "SGD"},
    ("ALGORITHMS", "FedDGGA"): {"step_size": -0.1, "server_optim": "SGD"},
    ("ALGORITHMS", "FedDyn"): {"beta": 0.0},
    ("ALGORITHMS", "FedGloSS"): {"beta": 0.0, "rho0": -1, "rho_rounds": -1, "rho_server": -0.1},
    ("ALGORITHMS", "FedProx"): {"mu": -0.1},
    ("ALGORITHMS", "FedSMOO"): {"rho": -0.1, "beta": 0.0},
    ("ALGORITHMS", "FedSpeed"): {"rho": -0.1, "alpha": 1.1, "lam": 0.0},
    ("ALGORITHMS", "MIME"): {"momentum": 1.0},
    ("ALGORITHMS", "SCAFFOLD"): {"eta_g": 0.0},
    ("BATCH_TRANSFORMS", "Cutout"): {"size": 0},
    ("BATCH_TRANSFORMS", "Mixup"): {"alpha": 0.0},
    ("BATCH_TRANSFORMS", "Normalize"): {"mean": [125.0], "std": [0.0]},
    ("BATCH_TRANSFORMS", "RandomCrop"): {"padding": -1, "size": 0},
    ("BATCH_TRANSFORMS", "RandomFlip"): {"prob": 1.1},
    ("EXECUTORS", "RayExecutor"): {
        "num_workers": 0,
        "cpus_per_worker": 0,
        "gpus_per_worker": -1.0,
        "restart_timeout": 0.0,
    },
    ("HOOKS", "ProgressHook"): {"metric": 1},
    ("HOOKS", "SWA"): {"start": 1.5, "cycle": 0, "lr2": -0.1, "bn": "guess", "parameters": 1},
    ("HOOKS", "WIMA"): {"start": -3, "window": 0},
    ("LOCAL_LOSSES", "FedAlign"): {"mu": -0.1, "width": 0.0, "power_iterations": 0},
    ("LOCAL_LOSSES", "FedSeg"): {"contrast": -0.1, "known": "class", "threshold": 1.1},
    ("LOCAL_LOSSES", "GradAug"): {"mu": -1, "width": 1.1, "n": 0, "multiple": 0, "resolutions": []},
    ("LOCAL_LOSSES", "MOON"): {"mu": -0.1, "tau": 0.0},
    ("LOCAL_LOSSES", "SelfTraining"): {"every": -1, "share": 1.1, "average_from": 0},
    ("LOOPS", "FederatedTrainLoop"): {"max_norm_ratio": 0.5, "max_rounds": 0, "val_interval": 0},
    ("OPTIM_WRAPPERS", "ASAMOptimWrapper"): {"eta": -0.1, "rho": -0.1, "rho_rounds": -1},
    ("PARTITIONS", "ClassHeterogeneous"): {"classes_per_client": 0, "clients_per_class": 0},
    ("PARTITIONS", "DirichletClassPartition"): {"alpha": 0, "min_samples": 0, "num_clients": 0},
    ("PARTITIONS", "DirichletPartition"): {"alpha": -0.1, "num_clients": 0, "seed": -1},
    ("PARTITIONS", "HomogeneousPartition"): {"num_clients": 0, "seed": -1},
    ("PARTITIONS", "PachinkoPartition"): {"alpha": 0, "beta": 0, "num_clients": 0, "seed": -1},
    ("SAMPLERS", "UniformSampler"): {"clients_per_round": 0},
    ("SAMPLERS", "FixedSampler"): {"participants": [["a"], []]},
    ("SERVER_OPTIMIZERS", "Adagrad"): {"beta1": 1.0, "lr": 0.0, "tau": 0.0},
    ("SERVER_OPTIMIZERS", "Adam"): {"betas": [0.9, 1.0], "lr": 0.0, "tau": 0.0},
    ("SERVER_OPTIMIZERS", "SGD"): {"lr": 0.0, "momentum": 1.0},
    ("TRANSFORMS", "CFSIStyle"): {"window": 0.5},
    ("TRANSFORMS", "LABStyle"): {"images_per_domain": 0, "p": 2.0},
}


@pytest.mark.parametrize(("registry", "kind"), OUTSIDE)
def test_values_outside_their_bounds(registry, kind):
    one = getattr(fedseg.registry, registry)
    wrong = OUTSIDE[registry, kind]
    needless = set(read_signature(one.get(kind)).hints)
    for name, value in wrong.items():
        with pytest.raises(ConfigError, match=rf"^field\.{name}[:\[]"):
            check_component(one, {"type": kind, name: value}, "field", optional=needless)


@pytest.mark.parametrize(
    ("registry", "config", "message"),
    [
        ("ALGORITHMS", {"type": "FedGloSS", "rho_server": 0.1}, "beta is needed"),
        (
            "ALGORITHMS",
            {"type": "FedGloSS", "rho_server": 0.1, "beta": 1.0, "rho_rounds": 5},
            "goes with rho0",
        ),
        ("HOOKS", {"type": "SWA", "cycle": 2}, "lr2 is needed"),
        ("SAMPLERS", {"type": "FixedSampler"}, "either participants or file"),
        ("SAMPLERS", {"type": "FixedSampler", "participants": [["a"]], "file": "x"}, "either"),
    ],
)
def test_arguments_that_contradict_each_other(registry, config, message):
    with pytest.raises(ConfigError, match=f"^field: {config['type']}: .*{message}"):
        build(REGISTRIES[registry], config, "field")
