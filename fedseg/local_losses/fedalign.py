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

from typing import Annotated

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
from fedseg.local_losses.requirements import require_layers
from fedseg.models.slim import Slim
from fedseg.registry import LOCAL_LOSSES

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
