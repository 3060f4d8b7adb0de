"""What goes into a module and comes out of it, for comparison."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from torch import Tensor, nn


class Call(NamedTuple):
    """One call of a module: its first argument and its output."""

    input: Tensor
    output: Tensor


@contextmanager
def record_calls(module: nn.Module) -> Iterator[list[Call]]:
    """Inside, every call of a module is appended to the list."""
    calls: list[Call] = []

    def record(_module: nn.Module, arguments: tuple, output: Any) -> None:
        calls.append(Call(arguments[0], output))

    handle = module.register_forward_hook(record)
    try:
        yield calls
    finally:
        handle.remove()
