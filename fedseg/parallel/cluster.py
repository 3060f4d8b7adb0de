"""Ray on this machine, started quietly and leaving nothing behind; or a cluster that is joined."""

import logging
import os
import signal
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest import mock

import torch

from fedseg.errors import ConfigError, ResourceError
from fedseg.loaders.workers import SIGNALS

# read by Ray's processes when they start; what a user has set holds
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_worker_niceness": "0",  # or whatever else runs on the machine goes before the workers
}
# deletes Ray's folder when this process closes its end or ends, however that comes; Ray's last
# processes may still write logs
CLEANER = 'cat >/dev/null; rm -rf "$0"; sleep 1; rm -rf "$0"'


def import_ray() -> Any:
    """The module; ConfigError if it is not installed."""
    try:
        import ray
    except ImportError as error:
        raise ConfigError(
            "executor.type: RayExecutor needs Ray, which is not installed: pip install "
            "'fedseg[ray]', or leave executor out"
        ) from error
    return ray


@contextmanager
def connected(address: str | None, cpus: int, gpus: float) -> Iterator[Any]:
    """A connection to Ray: gives the module ``ray``. Afterwards a Ray of our own ends.

    Args:
        address: of a cluster; None: Ray is started on this machine. In a process that is connected
            already, that connection is used and left as it is.
        cpus, gpus: what a Ray of our own may give to workers.
    """
    ray = import_ray()
    with ExitStack() as undo:
        if not ray.is_initialized():
            _connect(ray, undo, address, cpus, gpus)
        serialize_tensors(ray)
        yield ray


def _connect(ray: Any, undo: ExitStack, address: str | None, cpus: int, gpus: float) -> None:
    folder = undo.enter_context(_temporary_folder())
    # unhandled errors are of work that a run which is being stopped no longer waits for
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if address is not None:
        options["address"] = address
    else:
        options |= {"address": "local", "include_dashboard": False, "_temp_dir": folder}
        options |= {"num_cpus": cpus, "num_gpus": gpus or None}
    # no option turns off what Ray prints from a thread, which the pool says better
    quiet = mock.patch.object(ray._private.worker, "print_to_stdstream", lambda *_, **__: None)
    undo.enter_context(quiet)
    thread = undo.enter_context(ThreadPoolExecutor(1))  # Ray's processes end with it
    undo.callback(ray.shutdown)
    # a signal to all processes of a terminal or a job is for the run: it ends its workers
    popen = partial(subprocess.Popen, start_new_session=True)
    try:
        with (
            mock.patch.object(ray._private.services, "ConsolePopen", popen),
            mock.patch.dict(os.environ, {**SETTINGS, **os.environ}),
            _current_folder(folder),  # where workers look for modules
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore", FutureWarning)
            _start(ray, options, thread)
    except Exception as error:
        if address is not None:
            where = os.environ.get("RAY_ADDRESS") if address == "auto" else None
            named = f"{address!r} (RAY_ADDRESS is {where!r})" if where else repr(address)
            raise ConfigError(
                f"executor.address: no Ray cluster at {named}: {error}: start it before, with the "
                "RAY_AUTH_MODE of this process"
            ) from error
        raise ResourceError(
            f"executor: Ray has not started on this machine ({error}): end other programs, or "
            "leave executor out"
        ) from error


def _start(ray: Any, options: dict[str, Any], thread: ThreadPoolExecutor) -> None:
    """Start Ray in a thread, where it sets no handler for signals, and undo that of its core.

    In a thread of the user's own there are no handlers to keep: only the main one may set them.
    """
    is_main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in SIGNALS} if is_main else {}
    logging.getLogger("ray").setLevel(logging.CRITICAL)  # it warns that it sets none
    started = thread.submit(ray.init, **options)
    while not wait([started], timeout=0.01).done:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for number, handler in handlers.items():
        signal.signal(number, handler)
    started.result()


@contextmanager
def _temporary_folder() -> Iterator[str]:
    """A folder that is deleted even if this process is killed."""
    # the paths of Ray's sockets may have 107 characters, too few for many a TMPDIR
    place = "/tmp" if os.access("/tmp", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="fedseg-ray-", dir=place)
    command = ["/bin/sh", "-c", CLEANER, folder]
    cleaner = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, cwd="/")
    try:
        yield folder
    finally:
        cleaner.communicate()


@contextmanager
def _current_folder(folder: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def serialize_tensors(ray: Any) -> None:
    """Let this process give tensors to others as bytes that all of a machine read in place."""
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
