"""A run put together from its config: wiring, checkpoints, resume, client states."""
