"""What drift correction is for, in two dimensions: clients that disagree, and where each one ends.

Three clients have quadratic losses with centers and curvatures of their own. All take part in every
round, with several full-batch steps. The engine trains; the minimizer is known in closed form.

    python docs/site/drift_picture.py docs/pictures/drift.png
"""

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from mmengine.config import Config
from mmengine.model import BaseModel
from torch import Tensor, nn
from torch.utils.data import Dataset

from fedseg.hooks import FederatedHook
from fedseg.registry import DATASETS, MODELS
from fedseg.report.figures import COLORS, MARKERS, new_figure, plain_axes, save_figure
from fedseg.runner.runner import FederatedRunner

START = (1.0, 1.8)
# Each client's center, the angle of its first axis, its curvatures along both axes. The curvatures
# of a client differ by a factor of eight, so that it soon leaves along its steep axis only.
CLIENTS = (
    ((-2.0, 1.2), 0.2, (1.0, 0.12)),
    ((2.2, 0.4), 1.9, (0.8, 0.1)),
    ((0.4, -2.0), 1.0, (1.2, 0.15)),
)
LOCAL_STEPS, LR = 10, 0.5
ROUNDS = 50
NEAR = {"xlim": (-1.55, -0.2), "ylim": (-1.3, 0.05)}  # where all of them end

ALGORITHMS: dict[str, dict[str, Any]] = {
    "FedAvg": {"type": "FedAvg"},
    "SCAFFOLD": {"type": "SCAFFOLD"},
    "FedDyn": {"type": "FedDyn", "beta": 2.0},
    "FedGloSS, radius 0.1": {"type": "FedGloSS", "beta": 2.0, "rho_server": 0.1},
    "FedGloSS, radius 0.3 to 0": {
        "type": "FedGloSS",
        "beta": 2.0,
        "rho_server": 0.0,
        "rho0": 0.3,
        "rho_rounds": 20,
    },
}


def quadratics() -> tuple[np.ndarray, np.ndarray]:
    """Hessians [K, 2, 2] and centers [K, 2] of the clients' losses, float64."""
    hessians = []
    for _, angle, curvatures in CLIENTS:
        axes = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        hessians.append(axes @ np.diag(curvatures) @ axes.T)
    return np.array(hessians), np.array([center for center, _, _ in CLIENTS])


def minimizer() -> np.ndarray:
    """Where the mean of the clients' losses is smallest, [2]."""
    hessians, centers = quadratics()
    return np.linalg.solve(hessians.sum(0), np.einsum("kij,kj->i", hessians, centers))


@DATASETS.register_module()
class QuadraticData(Dataset):
    """One sample per client: its Hessian and its center, [3, 2]; ``users`` are the clients."""

    seeded = True  # takes a seed, which it does not need

    def __init__(self) -> None:
        hessians, centers = quadratics()
        self.inputs = torch.from_numpy(np.concatenate([hessians, centers[:, None]], axis=1))
        self.users = [f"client {k}" for k in range(len(centers))]

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, key: tuple[int, int]) -> dict[str, Tensor]:
        return {"inputs": self.inputs[key[0]]}


@MODELS.register_module()
class Quadratic(BaseModel):
    """A point in the plane; its loss on a sample (A, b) is ``(w - b)^T A (w - b) / 2``."""

    def __init__(self) -> None:
        super().__init__()
        self.point = nn.Parameter(torch.tensor(START, dtype=torch.float64))

    def forward(self, inputs: Tensor, mode: str = "loss") -> dict[str, Tensor]:
        away = self.point - inputs[:, 2]
        return {"loss": torch.einsum("bi,bij,bj->b", away, inputs[:, :2], away).mean() / 2}


class _Recorder(FederatedHook):
    """Keeps the global model of every round."""

    def __init__(self) -> None:
        self.points: list[np.ndarray] = [np.array(START)]

    def after_round(self, runner: FederatedRunner, record: dict[str, Any]) -> None:
        self.points.append(runner.server.w[:2].cpu().numpy().copy())


def trajectory(algorithm: Mapping[str, Any], rounds: int) -> np.ndarray:
    """The global model before the first and after every round, [rounds + 1, 2]."""
    with tempfile.TemporaryDirectory() as folder:
        config = {
            "work_dir": folder,
            "dtype": "float64",
            "model": {"type": "Quadratic"},
            "train_dataloader": {
                "batch_size": "full",
                "shuffle": False,
                "num_workers": 0,
                "dataset": {"type": "QuadraticData"},
                "partition": {"type": "NaturalPartition", "key": "users"},
            },
            "client_sampler": {"type": "UniformSampler", "clients_per_round": "all"},
            "algorithm": dict(algorithm),
            "optim_wrapper": {"optimizer": {"type": "SGD", "lr": LR}},
            "train_cfg": {"max_rounds": rounds, "local_epochs": LOCAL_STEPS},
            "default_hooks": {name: None for name in ("checkpoint", "progress", "pictures")},
            "log_level": "ERROR",
        }
        runner = FederatedRunner.from_cfg(Config(config))
        recorder = _Recorder()
        runner.register_hook(recorder)
        runner.train()
    return np.array(recorder.points)


def draw(path: Path) -> Path:
    """Paths of the global model, whole and near the end, and distance to the minimizer; a PNG."""
    figure = new_figure(16, 5.2)
    plane, lens, distances = figure.subplots(1, 3, width_ratios=(1, 1, 1.1))
    _draw_losses(plane)
    lens.set(aspect="equal", title="near the end", **NEAR)
    (left, right), (bottom, top) = NEAR.values()
    frame = Rectangle((left, bottom), right - left, top - bottom, fill=False, edgecolor="0.3")
    plane.add_patch(frame)
    for number, (name, algorithm) in enumerate(ALGORITHMS.items()):
        points = trajectory(algorithm, ROUNDS)
        style = {"color": COLORS[number], "marker": MARKERS[number], "markersize": 4.5}
        away = np.linalg.norm(points - minimizer(), axis=1)
        distances.semilogy(away.clip(1e-16), **style, linewidth=1.6, markevery=3, label=name)
        if "to 0" in name:
            continue  # in the plane it hides the others
        for axes in (plane, lens):
            axes.plot(*points.T, **style, linewidth=1.3, label=name)
    for axes in (plane, lens):
        axes.plot(*minimizer(), "*", color="black", markersize=13, zorder=5, label="minimizer")
    lens.legend(fontsize=9)
    plane.set_title("the global model, round by round")
    distances.set(title="distance from the minimizer", xlabel="round", xlim=(0, ROUNDS))
    distances.xaxis.set_major_locator(MaxNLocator(integer=True))
    distances.legend(loc="lower left", fontsize=9)
    plain_axes(distances)
    for axes in (plane, lens):
        axes.spines[["top", "right"]].set_visible(False)
    return save_figure(figure, path)


def _draw_losses(axes: Any) -> None:
    """Contours of the mean loss, and one of each client's loss around its center."""
    hessians, centers = quadratics()
    x, y = np.meshgrid(np.linspace(-2.7, 3.3, 300), np.linspace(-3.2, 2.8, 300))
    away = np.stack([x, y], axis=-1)[:, :, None] - centers
    losses = np.einsum("xyki,kij,xykj->kxy", away, hessians, away) / 2
    axes.contour(x, y, losses.mean(0), levels=12, colors="0.85", linewidths=0.8)
    for k, (loss, center) in enumerate(zip(losses, centers, strict=True)):
        axes.contour(x, y, loss, levels=[0.02], colors="0.45", linewidths=1, linestyles="dashed")
        axes.plot(*center, "x", color="0.35", markersize=8)
        axes.annotate(f"client {k}", center, (9, -14), textcoords="offset points", color="0.35")
    axes.plot(*START, "o", color="0.35", markersize=5)
    axes.annotate("start", START, (7, 0), textcoords="offset points", color="0.35")
    axes.set_aspect("equal")


if __name__ == "__main__":
    print(draw(Path(sys.argv[1])))
