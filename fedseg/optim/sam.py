"""Sharpness-aware local optimizers.

SAM: Foret et al., "Sharpness-Aware Minimization for Efficiently Improving Generalization", ICLR
2021, equation 2. ASAM: Kwon et al., "ASAM: Adaptive Sharpness-Aware Minimization", ICML 2021,
equation 6 and section 4 (biases are not scaled). Weight decay, momentum and an algorithm's
correction act at the restored weights, never inside the perturbation.
"""

from contextlib import nullcontext
from typing import Any

import torch
from pydantic import NonNegativeInt

from fedseg.batchnorm import batchnorm_layers, frozen_running_statistics
from fedseg.config.arguments import NonNegative
from fedseg.core.client import Client
from fedseg.core.flat import FlatModel
from fedseg.core.vectors import linear_warmup, scale_to_norm
from fedseg.errors import ConfigError
from fedseg.optim.local import OptimWrapper, check_warmup, check_warmup_end
from fedseg.registry import OPTIM_WRAPPERS


@OPTIM_WRAPPERS.register_module()
class SAMOptimWrapper(OptimWrapper):
    """``eps = rho g / ||g||``; the gradient of the step is the one at ``w + eps``.

    Both passes use the same minibatch, augmentation and dropout.

    Args:
        rho: radius of the perturbation; 0 is plain training (at two passes per step).
        rho0: start of the rho schedule, see ``rho_rounds``.
        rho_rounds: rounds over which rho grows linearly from ``rho0`` (FedGloSS, appendix C); 0:
            none.
        freeze_statistics: the second pass leaves BatchNorm's running statistics alone (the
            released codes let both passes update them); not with ``approximate``, which has one.
        approximate: perturb along the previous step's gradient (at its ``w + eps``), in one pass;
            a client's first step is plain. With one client that has all images this is FedGloSS's
            approximation in centralized training.
        optimizer, clip_grad: as in :class:`OptimWrapper`.

    Attributes:
        radius: of this round.
    """

    passes = 2

    def __init__(
        self,
        *args: Any,
        rho: NonNegative,
        rho0: NonNegative | None = None,
        rho_rounds: NonNegativeInt = 0,
        freeze_statistics: bool = False,
        approximate: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        check_warmup(rho0, rho_rounds)
        if approximate and freeze_statistics:
            raise ConfigError(
                "optim_wrapper: freeze_statistics is for SAM's second pass, and approximate has "
                "only one: leave one of them out"
            )
        self.approximate = approximate
        self.passes = 1 if approximate else 2
        self.rho = rho
        self.radius = rho
        self.rho0 = rho0
        self.rho_rounds = rho_rounds
        self.freeze_statistics = freeze_statistics

    def setup(self, flat: FlatModel, max_rounds: int) -> None:
        check_warmup_end("optim_wrapper", self.rho_rounds, max_rounds)
        self._center = torch.empty_like(flat.w)
        if self.approximate:
            self._last = torch.zeros_like(flat.w)
        self._batchnorm_layers = list(batchnorm_layers(flat.model).values())

    def start_round(self, round_: int) -> None:
        self.radius = linear_warmup(self.rho0, self.rho, self.rho_rounds, round_)

    def gradient(self, client: Client, replay: bool = False) -> None:
        """Compute the gradient at the perturbed weights in ``client.grad``.

        Args:
            client: at the weights that are perturbed; they are restored.
            replay: True if the caller has already taken a gradient of this batch: then the first
                pass is a replay, too. The second one always is.
        """
        self._center.copy_(client.w)
        if self.approximate:
            self._gradient_along_the_last(client, replay)
        else:
            self._gradient_in_two_passes(client, replay)
        client.w.copy_(self._center)

    def _gradient_in_two_passes(self, client: Client, replay: bool) -> None:
        client.backward(replay)
        self.perturb(client.w, client.grad)
        frozen = (
            frozen_running_statistics(self._batchnorm_layers)
            if self.freeze_statistics
            else nullcontext()
        )
        with frozen:
            client.backward(replay=True)

    def _gradient_along_the_last(self, client: Client, replay: bool) -> None:
        if client.step > 0:
            self.perturb(client.w, self._last.clone())
        client.backward(replay)
        if not replay:
            self._last.copy_(client.grad)

    def perturb(self, w: torch.Tensor, grad: torch.Tensor) -> None:
        """``w <- w + eps(w, grad)`` in place; ``grad`` may be used as scratch."""
        w.addcmul_(grad, scale_to_norm(self.radius, grad.norm()))


@OPTIM_WRAPPERS.register_module()
class ASAMOptimWrapper(SAMOptimWrapper):
    """``eps = rho T^2 g / ||T g||`` with ``T = |w| + eta``, and ``T = 1`` for biases.

    Args:
        rho: radius in the scaled space.
        eta: keeps T away from 0.
        rho0, rho_rounds, freeze_statistics, approximate, optimizer, clip_grad: as in
            :class:`SAMOptimWrapper`.
    """

    def __init__(self, *args: Any, eta: NonNegative = 0.2, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.eta = eta

    def setup(self, flat: FlatModel, max_rounds: int) -> None:
        super().setup(flat, max_rounds)
        self._mask = adaptive_mask(flat)
        self._offset = self._mask * self.eta + (1 - self._mask)  # T is mask |w| + offset
        self._scale = torch.empty_like(flat.w)

    def perturb(self, w: torch.Tensor, grad: torch.Tensor) -> None:
        scale = torch.abs(w, out=self._scale)
        torch.addcmul(self._offset, scale, self._mask, out=scale)  # T
        grad.mul_(scale)  # T g
        factor = scale_to_norm(self.radius, grad.norm())
        w.addcmul_(grad.mul_(scale), factor)  # rho T^2 g / ||T g||


def adaptive_mask(flat: FlatModel) -> torch.Tensor:
    """1 where ASAM scales with ``|w|`` (weights and norm scales), 0 for biases and gaps."""
    norm_scales = {
        f"{prefix}.weight" if prefix else "weight"
        for prefix, module in flat.model.named_modules()
        if "Norm" in type(module).__name__
    }
    mask = torch.zeros_like(flat.w)
    for slot in flat.slots:
        if len(slot.shape) > 1 or slot.name in norm_scales:
            mask[slot.span] = 1
    return mask
