"""FedAlign: aligns the Lipschitz constants of the last stage and of a narrow sub-block of it.

Mendieta et al., "Local Learning Matters: Rethinking Data Heterogeneity in Federated Learning", CVPR
2022, section 4: the clients' loss changes and nothing else.

- The "last block" is the last stage of residual blocks, as in the released code: all six bottleneck
  blocks of 64 and 256 channels of ResNet56, the last two basic blocks of ResNet18.
- The sub-block gets the first channels of what the stage got, and these are the ``f_{L-1}`` of its
  ``X_S``. Neither they nor ``X_F`` carry a gradient: the term trains the sub-block's weights only.
- Its BatchNorm normalizes by the batch. GroupNorm, which the paper does not have, keeps its number
  of groups (see ``Slim``).
- The paper adds ``mu L_lip``; the released code first scales the term to the value of the
  cross-entropy, so that its gradient is ``mu CE / L_lip`` times that of ``L_lip``: ``relative``.
  The published mu belongs to that form: L_lip of an untrained ResNet56 is about 1e5. The code also
  clips the gradient's norm at 10, here an option of the local optimizer.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
from annotated_types import Interval
from pydantic import PositiveInt
from torch import Tensor

from fedseg.config.arguments import Float32, NonNegative
from fedseg.core.client import Client
from fedseg.core.flat import FlatModel
from fedseg.core.forward import total_loss
from fedseg.core.local_loss import LocalLoss, full_precision
from fedseg.errors import TrainingError
from fedseg.local_losses.requirements import require_layers
from fedseg.models.slim import Slim
from fedseg.registry import LOCAL_LOSSES

COLUMNS = 2**17  # of the Hessians' diagonals that are in memory at a time
TINY = 1e-30  # keeps a quotient or a root of zero finite, far below any feature that matters


@LOCAL_LOSSES.register_module()
class FedAlign(LocalLoss):
    """``CE + mu L_lip`` with ``L_lip = MSE(||X_S||, ||X_F||)``, the mean over a batch's images.

    ``X = f_{L-1}^T f_L / HW`` joins the channels before and after the last stage, ``||X||`` is its
    spectral norm: X_F in the full stage, X_S in its sub-block.

    Args:
        mu: weight of the term; 0 is plain training.
        width: share of the channels in the sub-block.
        power_iterations: of each spectral norm, from a vector of ones.
        relative: scale the term to the value of the cross-entropy, as the released code does.
    """

    def __init__(
        self,
        mu: NonNegative = 0.45,
        width: Annotated[Float32, Interval(gt=0, le=1)] = 0.25,
        power_iterations: PositiveInt = 10,
        relative: bool = False,
    ) -> None:
        self.mu = mu
        self.width = width
        self.power_iterations = power_iterations
        self.relative = relative

    def setup(self, flat: FlatModel) -> None:
        needed = ["last_stage_input", "last_stage_output"]
        require_layers(flat.model, self, needed, "a ResNet")
        stages = flat.model.get_submodule("stages")
        self._last_stage = list(stages.children())[-1]
        self._slim = Slim(self._last_stage)

    def loss(self, client: Client) -> Tensor:
        if self.mu == 0:
            return client.model_loss()
        outputs = client.model_layers()
        loss = total_loss(outputs)
        before = outputs["last_stage_input"].detach()  # f_{L-1}
        after = outputs["last_stage_output"].detach()  # f_L
        first = before[:, : self._slim.kept(before.shape[1], self.width)]
        with self._slim.at(self.width):
            after_slim = self._last_stage(first)
        lipschitz = self._lipschitz_loss(first, after_slim, before, after)
        if self.relative:
            lipschitz = lipschitz * (loss / lipschitz.clamp_min(TINY)).detach()
        return loss + self.mu * lipschitz

    def _lipschitz_loss(
        self, first: Tensor, after_slim: Tensor, before: Tensor, after: Tensor
    ) -> Tensor:
        """``MSE(||X_S||, ||X_F||)``, computed in full precision."""
        with torch.autocast(before.device.type, enabled=False):
            x_s = join_channels(first, after_slim)
            x_f = join_channels(before, after)
            norm_s = spectral_norm(x_s, self.power_iterations)
            norm_f = spectral_norm(x_f, self.power_iterations)
            return F.mse_loss(norm_s, norm_f)


def join_channels(before: Tensor, after: Tensor) -> Tensor:
    """``f_{L-1}^T f_L / HW`` of every image, float [B, channels before, channels after].

    Feature maps are [B, C, H, W]; the larger one is average-pooled to the size of the other.
    """
    before = full_precision(before)
    after = full_precision(after)
    if before.shape[2] > after.shape[2]:
        before = F.adaptive_avg_pool2d(before, (after.shape[2], after.shape[3]))
    elif before.shape[2] < after.shape[2]:
        after = F.adaptive_avg_pool2d(after, (before.shape[2], before.shape[3]))
    before = before.flatten(2)
    after = after.flatten(2)
    pixels = before.shape[2]
    return before @ after.mT / pixels


def spectral_norm(x: Tensor, iterations: int) -> Tensor:
    """The largest singular value of every matrix, float [B, M, N] to [B].

    The root of the largest eigenvalue of ``x x^T``, by the power method from a vector of ones;
    gradients go through all iterations, as in the released code.
    """
    v = torch.ones_like(x[..., :1])
    for _ in range(iterations):
        v = x @ (x.mT @ F.normalize(v, dim=1, eps=TINY))
    return torch.linalg.vector_norm(v, dim=(1, 2)).clamp_min(TINY).sqrt()


# ---------------------------------------------------------------- differences between clients


@dataclass(frozen=True)
class HessianDifferences:
    """H_N and H_D (section 3.3), with standard errors, which are 0 for exact diagonals.

    Attributes:
        norm: H_N, the mean over pairs of clients of ``(||d_k|| - ||d_j||)^2``, where d_k is the
            diagonal of client k's Hessian at the global model; lower is more similar.
        cosine: H_D, the mean over pairs of the cosine of d_k and d_j; higher is more similar.
        norm_error: standard error of ``norm``.
        cosine_error: standard error of ``cosine``.
    """

    norm: float
    cosine: float
    norm_error: float
    cosine_error: float


def hessian_differences(diagonals: np.ndarray) -> HessianDifferences:
    """H_N and H_D from estimates of the clients' Hessian diagonals, [clients, groups, n].

    With several independent estimates of each diagonal, products of different ones make squared
    norms without the bias that the noise of one gives (it can be a multiple of the norm). What is
    left of it in H_N, a difference of roots, shrinks with the probes; leaving one group out at a
    time gives the standard errors (jackknife).

    Args:
        diagonals: of at least two clients; one group of exact diagonals, or at least three groups
            of estimates. It may be memory-mapped.

    Raises:
        TrainingError: the noise of a diagonal exceeds the diagonal.
    """
    gram = gram_matrix(diagonals)
    groups = gram.shape[1]
    norm, cosine = _mean_differences(gram)
    if groups == 1:
        return HessianDifferences(norm=norm, cosine=cosine, norm_error=0.0, cosine_error=0.0)
    parts = []
    for group in range(groups):
        rest = np.delete(np.arange(groups), group)
        parts.append(gram[:, rest][:, :, :, rest])
    if not all(diagonal_norms(part).all() for part in (gram, *parts)):
        raise TrainingError(
            "--probes: too few for H_N and H_D: the noise of a client's diagonal exceeds the "
            "diagonal; use more"
        )
    without = np.array([_mean_differences(part) for part in parts])  # [groups, 2]
    squares = (without - without.mean(0)) ** 2
    errors = np.sqrt((groups - 1) / groups * squares.sum(0))
    return HessianDifferences(
        norm=norm, cosine=cosine, norm_error=float(errors[0]), cosine_error=float(errors[1])
    )


def gram_matrix(diagonals: np.ndarray) -> np.ndarray:
    """Inner products of all estimates of all clients' diagonals.

    From [clients, groups, n] to float64 [clients, groups, clients, groups].
    """
    shape = diagonals.shape[:2]
    rows = diagonals.reshape(-1, diagonals.shape[-1])
    gram = np.zeros((len(rows), len(rows)))
    for first in range(0, rows.shape[1], COLUMNS):
        part = rows[:, first : first + COLUMNS].astype(float)
        gram += part @ part.T
    return gram.reshape(*shape, *shape)


def diagonal_norms(gram: np.ndarray) -> np.ndarray:
    """``||d_k||`` of each client; 0 where noise makes the estimate of the square negative."""
    clients, groups = gram.shape[:2]
    blocks = np.stack([gram[k, :, k, :] for k in range(clients)])
    if groups == 1:
        return np.sqrt(blocks[:, 0, 0])
    different = ~np.eye(groups, dtype=bool)
    return np.sqrt(blocks[:, different].mean(1).clip(0))


def _mean_differences(gram: np.ndarray) -> tuple[float, float]:
    """The means over pairs of clients of the squared difference of norms, and of the cosine."""
    norms = diagonal_norms(gram)
    k, j = np.triu_indices(len(norms), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        cosines = gram.mean((1, 3))[k, j] / (norms[k] * norms[j])
    return float(((norms[k] - norms[j]) ** 2).mean()), float(cosines.mean())
