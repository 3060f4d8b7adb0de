"""PyTorch's threads: the bits of long sums depend on how many there are."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def threads(number: int | None = None) -> Iterator[None]:
    """Compute with so many threads within it (None: as before); afterwards as many as before it."""
    before = torch.get_num_threads()
    try:
        if number is not None:
            torch.set_num_threads(number)
        yield
    finally:
        torch.set_num_threads(before)
