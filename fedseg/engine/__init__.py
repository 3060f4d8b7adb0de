"""A round: trainer, loop, executor, validation of updates."""
