"""A federated quadratic for tests of algorithms: float64, every trajectory can be written down.

A sample is a row of curvatures and one of targets, the loss of a batch the mean of
``1/2 sum_j curvature_j (w_j - target_j)^2``. Clients differ in both, so that FedAvg with several
local steps ends beside the minimizer. Batches are all of a client's samples, in one step.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import toyseg
from mmengine.model import BaseModel
from torch import Tensor, nn
from torch.utils.data import Dataset

from fedseg.registry import DATASETS, MODELS

SIZE = 3
USERS = {"a": 1, "b": 2, "c": 1, "d": 4}  # client -> samples
START = (2.0, -1.0, 0.5)
fixed = toyseg.fixed


def samples() -> tuple[np.ndarray, np.ndarray]:
    """Curvatures [8, 3] from 0.5 to 2, and targets [8, 3]."""
    rng = np.random.default_rng(3)
    shape = (sum(USERS.values()), SIZE)
    return rng.uniform(0.5, 2, shape), rng.normal(0, 2, shape)


def of_client(client: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean curvature of a client and the minimizer of its loss, [3] each."""
    curvature, target = samples()
    users = np.array([user for user, count in USERS.items() for _ in range(count)])
    own = users == client
    mean = curvature[own].mean(0)
    return mean, (curvature * target)[own].mean(0) / mean


def gradient(client: str, w: np.ndarray) -> np.ndarray:
    curvature, minimizer = of_client(client)
    return curvature * (w - minimizer)


def minimizer(clients: Sequence[str] = tuple(USERS)) -> np.ndarray:
    """Where the uniform mean of the clients' losses is smallest."""
    curvatures, minimizers = zip(*map(of_client, clients), strict=True)
    return np.sum(np.multiply(curvatures, minimizers), 0) / np.sum(curvatures, 0)


@MODELS.register_module()
class ToyQuadratic(BaseModel):
    """Its only parameter is ``w``."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor(START))

    def forward(self, inputs: Tensor, data_samples: Tensor | None = None, mode: str = "tensor"):
        curvature, target = inputs.unbind(1)
        return {"loss": (curvature * (self.w - target) ** 2).sum(1).mean() / 2}


@DATASETS.register_module()
class ToyQuadratics(Dataset):
    """Items: ``inputs`` [2, 3], curvature and target. It is asked by (index, seed)."""

    seeded = True
    metainfo = {"classes": ("x",)}

    def __init__(self) -> None:
        self.items = torch.from_numpy(np.stack(samples(), 1))
        self.users = [user for user, count in USERS.items() for _ in range(count)]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, key: tuple[int, int]) -> dict[str, Tensor]:
        return {"inputs": self.items[key[0]], "data_samples": torch.tensor(0)}


def settings(folder: Path, algorithm: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """A config: all clients in 3 rounds of 5 steps of plain SGD with learning rate 0.1, float64.

    ``changes`` are merged over it as in :func:`toyseg.merge`.
    """
    return toyseg.merge(
        {
            "custom_imports": {"imports": ["toyquad"], "allow_failed_imports": False},
            "work_dir": str(folder / "run"),
            "dtype": "float64",
            "model": {"type": "ToyQuadratic"},
            "train_dataloader": {
                "batch_size": "full",
                "num_workers": 0,
                "dataset": {"type": "ToyQuadratics"},
                "partition": {"type": "NaturalPartition"},
            },
            "client_sampler": {"type": "UniformSampler", "clients_per_round": "all"},
            "algorithm": dict(algorithm),
            "optim_wrapper": {"type": "OptimWrapper", "optimizer": {"type": "SGD", "lr": 0.1}},
            "train_cfg": {"max_rounds": 3, "local_steps": 5, "local_epochs": None},
            "default_hooks": {
                "checkpoint": {"type": "FederatedCheckpointHook", "interval": 1, "keep_every": 1},
                "progress": None,
                "pictures": None,
            },
            "visualizer": {"vis_backends": []},
            "log_level": "ERROR",
        },
        changes,
    )


def long(rounds: int, **train: Any) -> dict[str, Any]:
    """Changes for many rounds, of which only the last is kept: see :func:`final`."""
    checkpoint = {"interval": rounds, "keep_every": 0}
    return {
        "train_cfg": {"max_rounds": rounds, **train},
        "default_hooks": {"checkpoint": checkpoint},
        "optim_wrapper": {"optimizer": {"lr": 0.3}},
    }


def run(folder: Path, algorithm: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """Train on the quadratic; returns the config, from which ``trace`` and toyseg's readers read.

    With a fixed sampler the number of rounds is that of its list.
    """
    config = settings(folder, algorithm, **changes)
    participants = config["client_sampler"].get("participants")
    if participants is not None:
        config["train_cfg"]["max_rounds"] = len(participants)
    toyseg.train(config)
    return config


def trace(config: Mapping[str, Any]) -> list[np.ndarray]:
    """The global model before the first round and after every one."""
    rounds = range(1, config["train_cfg"]["max_rounds"] + 1)
    models = [toyseg.checkpoint(config, i)["state_dict"]["w"].numpy() for i in rounds]
    return [np.array(START), *models]


def final(config: Mapping[str, Any]) -> np.ndarray:
    return toyseg.checkpoint(config)["state_dict"]["w"].numpy()


def vector(flat: Tensor) -> np.ndarray:
    """What a flat vector says of ``w``, without the gap for alignment."""
    return flat[:SIZE].numpy()


def server_vector(config: Mapping[str, Any], name: str, round_: int | None = None) -> np.ndarray:
    """A vector of the server's state after a round (default: the last)."""
    return vector(toyseg.checkpoint(config, round_)["server"]["state"][name])


def local_steps(
    client: str, w: np.ndarray, steps: int, lr: float, correction: Any = lambda w: 0.0
) -> np.ndarray:
    """Plain SGD by hand: the client's model after some steps from ``w``."""
    for _ in range(steps):
        w = w - lr * (gradient(client, w) + correction(w))
    return w
