"""The kernels that CUDA may choose: those of a run give the same bits every time."""

import os

import torch
from mmengine.config import Config

# two buffers of cuBLAS, whose results do not depend on which kernels run at the same time
CUBLAS_WORKSPACE = ":4096:8"


def device_of(cfg: Config) -> str:
    """The config's device; by default CUDA, if there is any."""
    return cfg.get("device") or ("cuda" if torch.cuda.is_available() else "cpu")


def choose_kernels(device: str, deterministic: bool) -> None:
    """Let CUDA compute the same bits in every run, or take its fastest kernels.

    To be called before the device is used: cuBLAS reads its environment variable only once. A CPU
    has deterministic kernels only, so nothing is set for it.

    Args:
        device: of the run.
        deterministic: ``randomness.deterministic``; an operation without a deterministic kernel
            is then an error.
    """
    if device.partition(":")[0] != "cuda":
        return
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", CUBLAS_WORKSPACE)
        torch.backends.cudnn.benchmark = False  # its choice of kernels may differ from run to run
    torch.use_deterministic_algorithms(deterministic)
    torch.backends.cudnn.deterministic = deterministic
    # else every torch.empty is filled, although nothing here reads what it has not written
    torch.utils.deterministic.fill_uninitialized_memory = False
