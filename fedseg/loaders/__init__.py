"""How batches reach a client: streamed from disk, or resident on the device."""
