"""Ray: started on this machine for a run, or joined where it runs already."""

import logging
import os
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from fedseg.errors import ConfigError, ResourceError
from fedseg.loaders.workers import SIGNALS

# read by Ray's processes when they start; what a user has set holds
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_worker_niceness": "0",  # or whatever else runs on the machine goes before the workers
}


def import_ray() -> Any:
    """Import Ray.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import ray
    except ImportError as error:
        raise ConfigError(
            "executor.type: RayExecutor needs Ray, which is not installed: pip install "
            "'fedseg[ray]', or leave executor out"
        ) from error
    return ray


def start_ray(address: str | None, cpus: int, gpus: float) -> bool:
    """Connect this process to Ray, and keep its handlers of signals.

    Args:
        address: of a cluster; None: Ray is started on this machine.
        cpus: that a Ray of our own may give to workers.
        gpus: likewise.

    Returns:
        False if the process was connected already: that connection is used as it is.

    Raises:
        ConfigError: there is no cluster at this address.
        ResourceError: Ray does not start.
    """
    ray = import_ray()
    serialize_tensors()
    if ray.is_initialized():
        return False
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    with _signal_handlers_kept(), _root_as_folder():
        _connect(ray, address, cpus, gpus)
    return True


@contextmanager
def _signal_handlers_kept() -> Iterator[None]:
    """Restore the handlers of signals afterwards: Ray sets its own in the main thread."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                signal.signal(number, handler)


@contextmanager
def _root_as_folder() -> Iterator[None]:
    """Leave the current folder for a while: Ray's workers import modules from it, whatever they are
    called; the root of the file system, which is everywhere, has none."""
    folder = os.getcwd()
    os.chdir(os.sep)
    try:
        yield
    finally:
        os.chdir(folder)


def _connect(ray: Any, address: str | None, cpus: int, gpus: float) -> None:
    # unhandled errors are of work that a run which is being stopped no longer waits for
    quiet = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    try:
        if address is None:
            ray.init(
                address="local",
                num_cpus=cpus,
                num_gpus=gpus or None,
                include_dashboard=False,
                **quiet,
            )
        else:
            ray.init(address=address, **quiet)
    except Exception as error:  # Ray raises whatever its parts raise
        if address is None:
            raise ResourceError(
                f"executor: Ray has not started on this machine ({error}): end other programs, or "
                "leave executor out"
            ) from error
        where = repr(address)
        if address == "auto" and "RAY_ADDRESS" in os.environ:
            where += f" (RAY_ADDRESS is {os.environ['RAY_ADDRESS']!r})"
        raise ConfigError(
            f"executor.address: no Ray cluster at {where}: {error}: start it before, with the "
            "RAY_AUTH_MODE of this process"
        ) from error


def serialize_tensors() -> None:
    """Let this process give tensors to others as bytes that all of a machine read in place."""
    ray = import_ray()
    ray.util.register_serializer(torch.Tensor, serializer=_to_bytes, deserializer=_from_bytes)


def _to_bytes(tensor: torch.Tensor) -> tuple[Any, torch.dtype, torch.Size]:
    tensor = tensor.detach().cpu().contiguous()
    return tensor.reshape(-1).view(torch.uint8).numpy(), tensor.dtype, tensor.shape


def _from_bytes(packed: tuple[Any, torch.dtype, torch.Size]) -> torch.Tensor:
    """The tensor, in memory that must not be changed."""
    array, dtype, shape = packed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of just that
        return torch.from_numpy(array).view(dtype).reshape(shape)
