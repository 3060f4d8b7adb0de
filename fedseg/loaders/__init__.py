"""Batches of the clients: streamed from disk, or resident on the device."""
