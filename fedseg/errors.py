"""Mistakes of users, said so that they can fix them.

The command lines print these as one message without a traceback. A message names the file or the
config field, what is wrong with it, and what to do.
"""

import re
from typing import Any

DEBUG = "FEDSEG_DEBUG"  # environment variable: command lines show tracebacks of user errors too


def printable(text: str) -> str:
    """Text without what a terminal obeys or no encoding holds, such as escapes."""
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)


class UserError(Exception):
    """Base of every error that is the user's to fix; the message may quote a damaged file."""

    exit_code = 2  # of a command line that ends with it

    def __str__(self) -> str:
        return printable(super().__str__())


class ConfigError(UserError):
    """A config asks for something unknown, impossible or contradictory."""


class UnknownArgument(ConfigError):
    """Nothing takes an argument of a config, and no other has a name like it.

    ``field`` is its place in the config, which may have the name elsewhere.
    """

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class TensorMoved(ConfigError, RuntimeError):
    """Code of the user's own replaced a tensor of the model, which must be changed in place."""


class DataError(UserError):
    """A data set, split file or checkpoint on disk is missing, damaged or inconsistent."""


class LoadingError(DataError):
    """A sample cannot be loaded; the run stops where its finished rounds can be saved."""


class LoaderKilled(LoadingError):
    """A process that loads samples was killed, as when memory runs out; its worker is replaced."""


class MissingDataError(DataError):
    """A file or folder of a data set is not there."""


class TrainingError(UserError):
    """A run cannot go on: every update was rejected, or the global model is not finite."""


class Interrupted(UserError):
    """The user asked the run to stop; everything up to the last finished round is saved."""

    exit_code = 130


class ResourceError(UserError):
    """Memory, room on a disk or a permission is lacking: neither config nor data are wrong."""


class WorkersLost(ResourceError):
    """Clients cannot be trained: a worker dies on them again and again, or none is left."""


NO_MEMORY = re.compile(
    r"out of memory|insufficient memory|allocate (shared )?memory|unable to (allocate|mmap)"
    r"|_ALLOC_FAILED",
    re.IGNORECASE,
)

# of torch's error for a loader process that ended, raised wherever the main process is
LOST_LOADER = re.compile(r"DataLoader worker \(.*\) (is killed by signal|exited unexpectedly)")

NO_KERNEL = re.compile(r"(\S+) does not have a deterministic implementation")  # PyTorch's words


def lacks_memory(error: BaseException) -> bool:
    """True if an error says that memory ran out; torch and OpenCV have no type for it."""
    text = "" if isinstance(error, UserError) else str(error)
    return isinstance(error, MemoryError) or NO_MEMORY.search(text) is not None


def is_lost_loader(error: BaseException) -> bool:
    """True if an error is torch's for a loader process that was killed or crashed."""
    return isinstance(error, RuntimeError) and LOST_LOADER.search(str(error)) is not None


def lost_loader_message(error: BaseException) -> str:
    """A sentence for such an error, or another one of a connection that broke."""
    reason = " ".join(str(error).split()).rstrip(".")
    return (
        f"a loader process was lost ({reason}): if memory ran out, set a smaller num_workers or "
        "prefetch_factor"
    )


def is_system_error(error: BaseException) -> bool:
    """True if the system lacks memory, room or a permission, or has killed a loader process.

    Neither config nor data are wrong.
    """
    return isinstance(error, OSError) or lacks_memory(error) or is_lost_loader(error)


def system_message(error: BaseException) -> str:
    """A line for such an error, as Python says it."""
    if is_lost_loader(error):
        return lost_loader_message(error)
    line = str(error).partition("\n")[0]
    if isinstance(error, OSError):
        return line
    return f"memory ran out ({line})" if line else "memory ran out"


def missing_kernel(error: BaseException) -> ConfigError | None:
    """The error to report if an operation has no deterministic kernel on CUDA, else None."""
    found = NO_KERNEL.search(str(error))
    if found is None:
        return None
    return ConfigError(
        f"randomness.deterministic: {found[1]} has no deterministic kernel on CUDA: set "
        "randomness.deterministic=False, and repeated runs may differ in their last digits"
    )


def explain_forward(model: Any, error: Exception, owner: str = "model") -> str:
    """A sentence for an error of a model's first forward pass, which the owner's loss makes."""
    fix = "check the numbers of channels and classes, and in_index of its heads"
    if type(model).__module__.startswith("mmseg."):
        fix = f"use model=dict(type='Segmentor', network=dict(type='{type(model).__name__}', ...))"
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    told = f"{owner}: {type(model).__name__} fails on a batch: {reason}: {fix}"
    return f"{told} ({DEBUG}=1 shows where)"
