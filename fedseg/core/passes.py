"""Passes over a client's data besides its local steps."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedseg.batchnorm import batch_statistics, batchnorm_layers
from fedseg.core.client import Client


@contextmanager
def at_rest(model: nn.Module) -> Iterator[None]:
    """Eval mode, but BatchNorm normalizes as in training, without updating running statistics."""
    training = [module for module in model.modules() if module.training]
    layers = [layer for layer in batchnorm_layers(model).values() if layer.training]
    model.eval()
    try:
        with batch_statistics(layers):
            yield
    finally:
        for module in training:
            module.training = True


def outputs_at(client: Client, w: Tensor, mode: str = "tensor") -> Any:
    """What the network with parameters ``w`` gives for the batch, at rest and without a gradient.

    Args:
        mode: of the model's ``forward``, called without labels.
    """
    inputs = client.batch["inputs"]
    with torch.no_grad(), at_rest(client.model), client.autocast():
        parameters = client.flat.views(w)
        # tying weights would lose modules that have two names
        return functional_call(client.model, parameters, inputs, {"mode": mode}, tie_weights=False)


def client_batches(client: Client, data: Any) -> Iterator[Any]:
    """Each sample of a client once, as the model takes it; the same augmentation every time."""
    ends = np.cumsum(data.full_sizes(client.index))[:-1]
    samples = np.split(data.indices[client.id], ends)
    for batch in data.sample_batches([indices.tolist() for indices in samples]):
        yield client.prepare(batch)
