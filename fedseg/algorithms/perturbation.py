"""Base of algorithms that perturb the weights by their own rule instead of SAM's."""

from contextlib import nullcontext

import torch

from fedseg.batchnorm import batchnorm_layers, frozen_running_statistics
from fedseg.core.algorithm import Algorithm
from fedseg.core.client import Client, LocalOptimizer
from fedseg.core.flat import FlatModel
from fedseg.core.messages import Exchange
from fedseg.errors import ConfigError
from fedseg.optim import OptimWrapper


class WeightPerturbation(Algorithm):
    """Two gradients per step, over the same minibatch: at ``w_k`` and at ``w_k + e``.

    Args:
        freeze_statistics: the second pass leaves BatchNorm's running statistics alone (the released
            codes let both passes update them).
    """

    exchanges = (Exchange(gradients=2),)

    def __init__(self, freeze_statistics: bool) -> None:
        self.freeze_statistics = freeze_statistics

    def setup(self, flat: FlatModel, local: LocalOptimizer, max_rounds: int) -> None:
        super().setup(flat, local, max_rounds)
        if type(local).gradient is not OptimWrapper.gradient:  # SAM's, or one of the user's own
            raise ConfigError(
                f"optim_wrapper.type: {type(local).__name__} cannot be combined with "
                f"{type(self).__name__}, which perturbs the weights itself (algorithm.rho): use "
                f"OptimWrapper"
            )
        self._center = torch.empty_like(flat.w)
        self._batchnorm_layers = list(batchnorm_layers(flat.model).values())

    def perturb(self, client: Client) -> None:
        """``w_k <- w_k + e`` in place, with the gradient at ``w_k`` in ``client.grad``."""
        raise NotImplementedError

    def gradient(self, client: Client) -> None:
        """The gradient at ``w_k + e``; afterwards ``client.w`` is ``w_k`` again."""
        client.backward()
        self._center.copy_(client.w)
        self.perturb(client)
        frozen = (
            frozen_running_statistics(self._batchnorm_layers)
            if self.freeze_statistics
            else nullcontext()
        )
        with frozen:
            client.backward(replay=True)
        client.w.copy_(self._center)
