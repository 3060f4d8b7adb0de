"""Every algorithm, local optimizer and local loss, with options to run it on a toy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import toyseg
from minibatch import SIDE

LR = 0.005
SGD = {"type": "SGD", "lr": LR, "momentum": 0.9, "weight_decay": 1e-4}
OPTIMIZERS = {
    "SGD": {"type": "OptimWrapper", "optimizer": SGD},
    "SAM": {"type": "SAMOptimWrapper", "rho": 0.05, "optimizer": SGD},
    "ASAM": {"type": "ASAMOptimWrapper", "rho": 0.1, "eta": 0.2, "optimizer": SGD},
}
OWN_SAM = "which perturbs the weights itself"
TWICE = {"SAM": OWN_SAM, "ASAM": OWN_SAM}


@dataclass(frozen=True)
class Entry:
    """How an algorithm is run here.

    Attributes:
        options: its arguments.
        down, up: vectors that a client receives and sends in a round.
        refused: local optimizers that it refuses -> what its reason must say.
        momentum: of the local optimizers.
        more: what else of a config it needs.
        local_epochs: of a client with a single batch.
    """

    options: dict[str, Any]
    down: int = 1
    up: int = 1
    refused: Mapping[str, str] = field(default_factory=dict)
    momentum: float = 0.9
    more: Mapping[str, Any] = field(default_factory=dict)
    local_epochs: int = 1

    def local(self, optimizer: str) -> dict[str, Any]:
        """The config of a local optimizer with this momentum."""
        return toyseg.merge(OPTIMIZERS[optimizer], {"optimizer": {"momentum": self.momentum}})


ENTRIES = {
    "FedAvg": Entry({"server_optim": {"type": "SGD", "lr": 1.0, "momentum": 0.9}}),
    "FedDyn": Entry({"beta": 10.0}),
    "FedGloSS": Entry({"rho_server": 0.05, "beta": 10.0}),
    "NaiveFedGloSS": Entry({"rho_server": 0.05, "beta": 10.0}, down=2, up=2),
    "FedProx": Entry({"mu": 0.1}),
    "SCAFFOLD": Entry({"count_momentum": True}, down=2, up=2),
    "FedGamma": Entry(
        {"count_momentum": True}, down=2, up=2, refused={"SGD": "gives the plain one"}
    ),
    "FedCM": Entry({"alpha": 0.5, "count_momentum": True}, down=2),
    "FedACG": Entry({"lam": 0.8, "beta": 0.01}),
    "AdaBest": Entry({"mu": 0.02, "beta": 0.8}),
    "FedSpeed": Entry({"rho": 0.05, "alpha": 0.9, "lam": 100.0}, refused=TWICE),
    "FedSMOO": Entry({"rho": 0.05, "beta": 10.0}, down=2, up=2, refused=TWICE),
    "MIME": Entry({"momentum": 0.5}, down=2, up=2, momentum=0.0),
    "MIMELite": Entry({"momentum": 0.5}, down=2, up=2, momentum=0.0),
    "FedDGGA": Entry({}),
    "FedRep": Entry({}, more={"personal": "@head"}, local_epochs=2),
    "FedBABU": Entry({}, more={"personal": "@head"}),
    "Ditto": Entry({"lam": 0.1}),
    "FlexLoRA": Entry({}, more={"model": {"lora": {"r": 2}}}),
}
LOSSES: dict[str, dict[str, Any]] = {
    "MOON": {"mu": 1.0, "tau": 0.5},
    "FedAlign": {"mu": 0.45, "relative": True},
    "GradAug": {"n": 1, "resolutions": [SIDE, SIDE - 2]},
}
PIXEL_LOSSES: dict[str, dict[str, Any]] = {
    **{"ClassWeights": {}, "FedSeg": {}},
    "SelfTraining": {"threshold": 0.5, "every": 2, "average_from": 2},
}
