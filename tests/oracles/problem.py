"""A small federated classification problem, twice: by hand in NumPy, and as the engine sees it.

The model is linear 6 -> 8, layer norm, tanh, linear 8 -> 4; the loss is the mean cross-entropy of a
batch. It has every kind of parameter that a local optimizer tells apart: matrices, norm scales,
biases. The NumPy half writes the gradient out; the torch half is a model, a data set and a
partition for the engine's registries. Only the data and the initial weights are common to both.
"""

from collections.abc import Sequence

import numpy as np
import torch
from mmengine.model import BaseModel
from torch.utils.data import Dataset

from fedseg.registry import DATASETS, MODELS, PARTITIONS

INPUTS, HIDDEN, CLASSES = 6, 8, 4
NORM_EPS = 1e-5  # torch.nn.LayerNorm's

# Flat vectors hold the parameters in this order, each row by row.
SHAPES = {
    "fc1.weight": (HIDDEN, INPUTS),
    "fc1.bias": (HIDDEN,),
    "norm.weight": (HIDDEN,),
    "norm.bias": (HIDDEN,),
    "fc2.weight": (CLASSES, HIDDEN),
    "fc2.bias": (CLASSES,),
}

# Clients of unequal size. With batches of 4 they end in batches of 3, 1, 3, 4, 3 and 3 samples.
SIZES = (3, 5, 7, 8, 11, 15)
EQUAL_SIZES = (8, 8, 8, 8, 8, 8)
SAMPLES = sum(SIZES)

# Two or three of six clients per round; c3 is away from round 2 to 6 and then comes back.
PARTICIPANTS = [
    ["c0", "c3"],
    ["c1", "c2", "c5"],
    ["c0", "c4"],
    ["c2", "c5"],
    ["c1", "c4", "c5"],
    ["c0", "c2"],
    ["c3", "c5"],
    ["c1", "c3", "c4"],
]


# ---------------------------------------------------------------- flat vectors


def split(w: np.ndarray) -> dict[str, np.ndarray]:
    parts, at = {}, 0
    for name, shape in SHAPES.items():
        size = int(np.prod(shape))
        parts[name] = w[at : at + size].reshape(shape)
        at += size
    return parts


def join(parts: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([np.asarray(parts[name], dtype=np.float64).ravel() for name in SHAPES])


def scaled_entries() -> np.ndarray:
    """True where ASAM scales the perturbation: matrices and norm scales, not biases."""
    return join({name: np.full(s, not name.endswith("bias")) for name, s in SHAPES.items()}) == 1


def initial_weights() -> np.ndarray:
    """The initial model; representable in float32, so a cast on the way cannot change it."""
    rng = np.random.default_rng(7)
    w = {name: rng.normal(0.0, 0.5, shape) for name, shape in SHAPES.items()}
    w["norm.weight"] += 1.0
    return join(w).astype(np.float32).astype(np.float64)


# ---------------------------------------------------------------- data


def make_data(samples: int = SAMPLES) -> tuple[np.ndarray, np.ndarray]:
    """Inputs [n, 6] and labels [n] in 0..3: a noisy linear teacher."""
    rng = np.random.default_rng(11)
    x = rng.normal(size=(samples, INPUTS))
    teacher = rng.normal(size=(INPUTS, CLASSES))
    y = np.argmax(x @ teacher + 0.5 * rng.normal(size=(samples, CLASSES)), axis=1)
    return x, y.astype(np.int64)


def make_clients(sizes: Sequence[int] = SIZES) -> dict[str, np.ndarray]:
    """Sample indices of the clients c0, c1, ...: skewed to few classes, in no sorted order."""
    _, y = make_data()
    rng = np.random.default_rng(13)
    order = np.argsort(y + rng.normal(0.0, 0.7, len(y)))
    ends = np.cumsum(sizes)
    starts = ends - np.asarray(sizes)
    bounds = zip(starts, ends, strict=True)
    return {f"c{k}": rng.permutation(order[a:b]) for k, (a, b) in enumerate(bounds)}


def make_batches(indices: np.ndarray, batch_size: int | str) -> list[np.ndarray]:
    """One epoch over ``indices`` in their order; the last batch may be smaller."""
    if batch_size == "full":
        return [indices]
    return [indices[i : i + batch_size] for i in range(0, len(indices), batch_size)]


# ---------------------------------------------------------------- the model by hand


def _forward(w: np.ndarray, x: np.ndarray) -> dict[str, np.ndarray]:
    p = split(w)
    z = x @ p["fc1.weight"].T + p["fc1.bias"]
    spread = np.sqrt(z.var(axis=1, keepdims=True) + NORM_EPS)
    z_hat = (z - z.mean(axis=1, keepdims=True)) / spread
    h = np.tanh(p["norm.weight"] * z_hat + p["norm.bias"])
    logits = h @ p["fc2.weight"].T + p["fc2.bias"]
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_prob = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return {"spread": spread, "z_hat": z_hat, "h": h, "log_prob": log_prob}


def loss(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    return float(-_forward(w, x)["log_prob"][np.arange(len(y)), y].mean())


def gradient(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Gradient of ``loss`` with respect to ``w``, by the chain rule, last layer first."""
    p, f = split(w), _forward(w, x)
    d_logits = (np.exp(f["log_prob"]) - np.eye(CLASSES)[y]) / len(y)
    d_h = d_logits @ p["fc2.weight"]
    d_norm = d_h * (1.0 - f["h"] ** 2)
    d_hat = d_norm * p["norm.weight"]
    # Layer norm: the mean and the spread of a row depend on all of its entries.
    d_z = (
        d_hat
        - d_hat.mean(axis=1, keepdims=True)
        - f["z_hat"] * (d_hat * f["z_hat"]).mean(axis=1, keepdims=True)
    ) / f["spread"]
    return join(
        {
            "fc1.weight": d_z.T @ x,
            "fc1.bias": d_z.sum(axis=0),
            "norm.weight": (d_norm * f["z_hat"]).sum(axis=0),
            "norm.bias": d_norm.sum(axis=0),
            "fc2.weight": d_logits.T @ f["h"],
            "fc2.bias": d_logits.sum(axis=0),
        }
    )


# ---------------------------------------------------------------- the same for the engine


@MODELS.register_module()
class OracleMLP(BaseModel):
    """Torch twin of the model above, with the same initial weights."""

    def __init__(self, data_preprocessor: dict | None = None) -> None:
        super().__init__(data_preprocessor=data_preprocessor)
        self.fc1 = torch.nn.Linear(INPUTS, HIDDEN)
        self.norm = torch.nn.LayerNorm(HIDDEN, eps=NORM_EPS)
        self.fc2 = torch.nn.Linear(HIDDEN, CLASSES)
        parts = split(initial_weights())
        self.load_state_dict({name: torch.from_numpy(part) for name, part in parts.items()})

    def forward(
        self, inputs: torch.Tensor, data_samples: torch.Tensor | None = None, mode: str = "tensor"
    ) -> torch.Tensor | dict[str, torch.Tensor]:
        inputs = inputs.to(self.fc1.weight.dtype)
        logits = self.fc2(torch.tanh(self.norm(self.fc1(inputs))))
        if mode == "loss":
            return {"loss": torch.nn.functional.cross_entropy(logits, data_samples)}
        return logits.argmax(dim=1) if mode == "predict" else logits


@DATASETS.register_module()
class OracleData(Dataset):
    """The samples of ``make_data``; deterministic, so it needs no seeds."""

    seeded = True  # takes them, however: the engine seeds global generators for those who do not

    def __init__(self, samples: int = SAMPLES) -> None:
        x, y = make_data(samples)
        self.inputs, self.labels = torch.from_numpy(x), torch.from_numpy(y)
        self.metainfo = {"classes": tuple(f"class {c}" for c in range(CLASSES))}

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, key: int | tuple[int, int]) -> dict[str, torch.Tensor]:
        index = key[0] if isinstance(key, tuple) else key
        return {"inputs": self.inputs[index], "data_samples": self.labels[index]}


@PARTITIONS.register_module()
class OraclePartition:
    def __init__(self, sizes: Sequence[int] = SIZES) -> None:
        self.sizes = tuple(sizes)

    def __call__(self, dataset: Dataset) -> dict[str, np.ndarray]:
        return make_clients(self.sizes)
