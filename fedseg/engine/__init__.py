"""A round: trainer, loop, executor, client sampler, validation of updates."""
