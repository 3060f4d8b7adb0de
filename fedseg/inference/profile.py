"""The costs of a model: parameters, operations, latency, memory, and the bytes of a round."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope
from torch import get_num_threads, nn
from torch.utils.benchmark import Timer
from torch.utils.flop_counter import FlopCounterMode

from fedseg.config.check import complete_config, drop_weights
from fedseg.datasets.transforms import Pipeline
from fedseg.errors import ConfigError, DataError, UserError
from fedseg.files import own_path
from fedseg.runner.build import build_model, build_vectors, move_model
from fedseg.runner.plan import rehearse
from fedseg.runner.recorded import recorded
from fedseg.runner.runner import FederatedRunner
from fedseg.runs.history import HISTORY, read_history
from fedseg.trust import Trust


def _recurrent(inputs: Sequence[int], weights: Any, *others: Any, **_: Any) -> int:
    """Operations of a fused recurrent layer, from shapes: its matrix products at every step."""
    matrices = weights if isinstance(weights[0], Sequence) else (weights, others[0])
    return 2 * inputs[0] * inputs[1] * sum(m[0] * m[1] for m in matrices if len(m) == 2)


# what PyTorch's counter leaves out
RECURRENT = dict.fromkeys((torch.ops.aten.mkldnn_rnn_layer, torch.ops.aten._cudnn_rnn), _recurrent)


def profile_config(
    config: Config,
    size: tuple[int, int] | None = None,
    batch_size: int = 1,
    traffic: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Profile the network of a config, on its device and in its precision.

    Args:
        size: (height, width) of what the network sees; default: of a test image, else of a
            training one after the pipeline.
        traffic: of a round, if it is known; else a client rehearses one, if its data are there.
    """
    cfg = complete_config(config)
    init_default_scope("fedseg")
    drop_weights(cfg.model)  # costs do not depend on them
    cfg["load_from"] = None
    model = move_model(build_model(cfg), cfg)
    flat = build_vectors(model, cfg)
    model.eval()
    height, width = size or _input_size(cfg, model)
    channels = getattr(model, "in_channels", 3)
    images = torch.zeros(batch_size, channels, height, width).to(flat.w)
    amp = torch.autocast(images.device.type, torch.bfloat16, bool(cfg.train_cfg.get("amp")))
    with torch.no_grad(), amp:
        try:
            with FlopCounterMode(display=False, custom_mapping=RECURRENT) as counter:
                model(images, mode="tensor")
        except UserError as error:
            raise ConfigError(f"size: {height}x{width}: {error}") from error
        median, memory = _measure(model, images)
    flops = counter.get_flop_counts()
    prefix, inside = "network." * hasattr(model, "network"), getattr(model, "network", model)
    name, weights = type(model).__name__, sum(p.numel() for p in model.parameters())
    parts = {
        f"{prefix}{part}": {
            "parameters": sum(p.numel() for p in inner.parameters()),
            "flops": sum(flops.get(f"{name}.{prefix}{part}", {}).values()) // batch_size,
        }
        for part, inner in inside.named_children()
    }
    return {
        "size": [height, width],
        "batch size": batch_size,
        "device": str(images.device),
        "parameters": weights,
        "trainable": flat.num_parameters,
        "flops": counter.get_total_flops() // batch_size,  # an addition and a product are two
        "parts": {part: costs for part, costs in parts.items() if any(costs.values())},
        "seconds per batch": median,
        "images per second": batch_size / median,
        "bytes of the model": (weights + flat.buffers.numel()) * flat.w.element_size(),
        "peak memory": memory,  # of a GPU; None on a CPU, where PyTorch does not count it
        "bytes per round": dict(traffic) if traffic is not None else _traffic(cfg),
    }


def _measure(model: nn.Module, images: torch.Tensor) -> tuple[float, int | None]:
    """Median seconds of a forward pass, and the peak memory of its GPU in bytes (None on a CPU)."""
    names = {"model": model, "images": images}
    timer = Timer("model(images, mode='tensor')", globals=names, num_threads=get_num_threads())
    if not images.is_cuda:
        return timer.blocked_autorange(min_run_time=1).median, None
    with torch.cuda.device(images.device):  # the GPU that timer and counters are about
        torch.cuda.reset_peak_memory_stats()
        median = timer.blocked_autorange(min_run_time=1).median
        return median, torch.cuda.max_memory_allocated()


def _input_size(cfg: Config, model: nn.Module) -> tuple[int, int]:
    if getattr(model, "image_size", None):
        return tuple(model.image_size)
    image = np.zeros((2048, 3072, 3), np.uint8)  # larger than any crop
    loaders = [*(cfg.get("test_dataloader") or {}).values(), cfg.train_dataloader]
    for steps in (((loader or {}).get("dataset") or {}).get("pipeline") for loader in loaders):
        if steps:
            return Pipeline(steps)(image, image[..., 0], 0)[0].shape[:2]
    return (32, 32) if cfg.train_dataloader.get("type") == "ResidentData" else (224, 224)


def _traffic(cfg: Config) -> dict[str, int] | None:
    """Bytes of a round from its messages; None where the training data are not there."""
    with TemporaryDirectory() as place:
        cfg.work_dir = place
        runner = FederatedRunner.from_cfg(cfg)
        runner.mute_console()
        try:
            runner.build_federation()
        except DataError:
            return None
        rehearsal = rehearse(runner.trainer, runner.server, 0)
        rounds = range(1, runner.max_rounds + 1)
        count = statistics.median(len(runner.client_sampler.participants(r)) for r in rounds)
    return {"down": int(rehearsal.down * count), "up": int(rehearsal.up * count)}


def profile_run(
    folder: Path, options: Sequence[str] = (), trust: Trust = (), **sizes: Any
) -> dict[str, Any]:
    """Profile the network of a run; its bytes are the median of the rounds that it counted."""
    history = read_history(own_path(folder, HISTORY), finished=False)
    names = {"down": "bytes_down", "up": "bytes_up"}
    traffic = {
        n: int(statistics.median(r[k] for r in history)) for n, k in names.items() if history
    }
    with TemporaryDirectory() as place, recorded(folder, Path(place), options, trust) as (cfg, _):
        return profile_config(cfg, traffic=traffic, **sizes)
