"""FedGamma: SCAFFOLD with sharpness-aware gradients.

Dai et al., "FedGAMMA: Federated Learning with Global Sharpness-Aware Minimization", IEEE
Transactions on Neural Networks and Learning Systems, 2023, algorithm FedGAMMA: every local step
takes SAM's gradient in place of the plain one; what is sent and kept is SCAFFOLD's. SAM itself (or
ASAM, which the paper does not have) is the local optimizer of the config: its perturbation comes
from the client's own gradient, without the control variates, as in the code released by its
authors' group.
"""

from fedseg.algorithms.scaffold import SCAFFOLD
from fedseg.core.client import LocalOptimizer
from fedseg.core.flat import FlatModel
from fedseg.errors import ConfigError
from fedseg.optim.sam import SAMOptimWrapper
from fedseg.registry import ALGORITHMS


@ALGORITHMS.register_module()
class FedGamma(SCAFFOLD):
    """SCAFFOLD for SAM's gradients; arguments as :class:`SCAFFOLD`."""

    def setup(self, flat: FlatModel, local: LocalOptimizer, max_rounds: int) -> None:
        if not isinstance(local, SAMOptimWrapper):
            raise ConfigError(
                f"optim_wrapper.type: FedGamma is SCAFFOLD with SAM's gradient, and "
                f"{type(local).__name__} gives the plain one; use SAMOptimWrapper (or "
                "ASAMOptimWrapper), or algorithm.type='SCAFFOLD'"
            )
        super().setup(flat, local, max_rounds)
