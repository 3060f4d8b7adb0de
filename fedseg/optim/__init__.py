"""Local optimizers as MMEngine optim wrappers, and the server's optimizers."""

import fedseg.mmengine_optim  # before what imports MMEngine's optimizers itself
from fedseg.optim.local import OptimWrapper, build_local_optimizer
from fedseg.optim.sam import ASAMOptimWrapper, SAMOptimWrapper
