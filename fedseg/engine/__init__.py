"""A round: trainer, loop, executor, validation of updates."""

import fedseg.mmengine_optim  # before what imports MMEngine's optimizers itself
