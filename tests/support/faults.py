"""What happens to a program from outside: kills while it writes, pickles that would run."""

import io
import os
from pathlib import Path

import pytest
import torch
from toyalgorithms import StoppedError


class Payload:
    """Makes a folder when it is unpickled."""

    def __init__(self, mark: str | Path) -> None:
        self.mark = str(mark)

    def __reduce__(self) -> tuple:
        return os.mkdir, (self.mark,)


def kill_at(patch: pytest.MonkeyPatch, moment: int, half: bool = False) -> list[str]:
    """Raise at the ``moment``-th call of whatever touches the disk; returns the calls' names.

    Args:
        half: a call that writes bytes writes half of them first; a rename happens before the kill.
    """
    calls: list[str] = []

    def wrap(name, function, partial):
        def wrapped(*args, **kwargs):
            calls.append(name)
            if len(calls) - 1 == moment:
                if half:
                    partial(*args, **kwargs)
                raise StoppedError
            return function(*args, **kwargs)

        return wrapped

    def half_save(content, file):
        buffer = io.BytesIO()
        torch_save(content, buffer)
        file.write(buffer.getvalue()[: buffer.tell() // 2])
        file.flush()

    torch_save, replace, fsync = torch.save, os.replace, os.fsync
    patch.setattr(torch, "save", wrap("save", torch_save, half_save))
    patch.setattr(os, "replace", wrap("replace", replace, replace))
    patch.setattr(os, "fsync", wrap("fsync", fsync, fsync))
    return calls
