"""A run's model as a file for other programs: TorchScript, ONNX, a state dict, MMSegmentation."""

import io
import json
import warnings
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from pprint import pformat
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor, nn

from fedseg.config.components import MODEL_KEYS
from fedseg.datasets.images import read_image
from fedseg.errors import ConfigError, DataError, UserError
from fedseg.evaluation.models import ClientModels
from fedseg.evaluation.tasks import load_model
from fedseg.files import atomic_writer, write_text
from fedseg.inference.predictor import RESIZES, Predictor
from fedseg.models.preprocessor import ImagePreprocessor
from fedseg.registry import DATASETS, MODELS, build
from fedseg.runner import run_state

FORMATS = {"torchscript": "model.pt", "onnx": "model.onnx", "torch": "torch", "mmseg": "mmseg"}
FACTS = "fedseg.json"  # a TorchScript file's entry, and the key of ONNX metadata
IMPORTED = {"fedseg", "mmcv", "mmengine", "mmseg", "timm", "torch", "torchvision"}  # by load.py
TIE = 1e-3  # between logits, of their largest: rounding decides
LOAD = Path(__file__).with_name("load.py.txt")


class Deployed(nn.Module):
    """A model with its normalization: uint8 [N, C, h, w] to class ids, int64 [N, H, W] or [N]."""

    def __init__(self, model: nn.Module, mean: Any, std: Any, size: Any, dtype: Any) -> None:
        super().__init__()
        self.model = model
        mean, std = (torch.tensor(one, dtype=torch.float64).view(-1, 1, 1) for one in (mean, std))
        self.register_buffer("scale", (1 / (255 * std)).to(dtype))
        self.register_buffer("shift", (-mean / std).to(dtype))
        self.register_buffer("labels", torch.zeros(1, *size, dtype=torch.int64) if size else None)

    def logits(self, images: Tensor) -> Tensor:
        """At the size of the class map."""
        inputs = images.to(self.scale.dtype) * self.scale + self.shift
        return self.model(inputs, self.labels, mode="tensor")

    def forward(self, images: Tensor) -> Tensor:
        return self.logits(images).argmax(1)


def export(predictor: Predictor, kind: str, out: Path, size: tuple[int, int] | None = None) -> Path:
    """Write the model and what its images need; compare the file's class maps with the model's.

    Args:
        kind: one of :data:`FORMATS`. out: a file, or for ``torch`` and ``mmseg`` a folder.
        size: (height, width) of the photographs; default: the first test image's.
    """
    if kind not in FORMATS:
        raise ConfigError(f"format: {kind!r} is unknown: use one of {', '.join(FORMATS)}")
    runner = predictor.runner
    if predictor.by_batch:
        trained = ClientModels(runner, predictor.w, predictor.buffers).trained()
        raise ConfigError(
            "domain: is missing: BatchNorm's statistics stay with the clients of this run: "
            f"choose a domain or client, such as {[*trained, 'a client'][0]}"
        )
    others = {step["type"] for step in predictor.pipeline.steps} - RESIZES
    if predictor.maps and others:
        raise ConfigError(
            f"test_dataloader: its pipeline has {', '.join(sorted(others))}, but export supports "
            "resizing only: remove it (--cfg-options)"
        )
    weights = run_state.state_dict(runner, predictor.w, predictor.buffers)
    load_model(runner, predictor.w, predictor.buffers)
    mean, std = _normalization(predictor)
    if kind == "mmseg":
        return _write_mmseg(predictor, weights, mean, std, out)
    size, image = _photograph(predictor, size)
    prepared = predictor.prepare(image)
    facts = {
        "name": runner.name,
        "input": f"images: uint8 [N, {prepared.shape[0]}, height, width], RGB",
        "output": "class ids, int64 [N, height, width]" if size else "class ids, int64 [N]",
        "input_size": list(prepared.shape[1:]),
        "output_size": list(size or ()),
        "steps": list(predictor.pipeline.steps),  # from a photograph of output_size to the input
        "mean": list(mean),
        "std": list(std),
        "classes": list(map(str, predictor.classes.names)),
        "palette": [list(color) for color in predictor.classes.palette],
        "statistics": predictor.statistics,
    }
    deployed = Deployed(runner.model, mean, std, size, predictor.w.dtype)
    deployed = deployed.to(predictor.w.device).eval()
    images = torch.from_numpy(prepared)[None].to(predictor.w.device)
    if kind == "torch":
        model = runner.cfg.model.to_dict()
        model = {key: value for key, value in model.items() if key not in MODEL_KEYS}
        modules = {type(part).__module__.partition(".")[0] for part in runner.model.modules()}
        if foreign := sorted(modules - IMPORTED):
            raise ConfigError(
                f"format: torch cannot export networks from your module {foreign[0]}: "
                "use torchscript or onnx"
            )
        _check_names(model, weights)
        with atomic_writer(out / "weights.pth", "wb") as file:
            torch.save(weights, file)
        write_text(out / "model.json", json.dumps({**facts, "model": model}, indent=2) + "\n")
        write_text(out / "load.py", LOAD.read_text(encoding="utf-8"))
        return out
    with torch.no_grad():
        logits = deployed.logits(images)
        convert = _onnx if kind == "onnx" else _torchscript
        content, classes = convert(deployed, images, facts)
    _check_equal(logits, classes, out)
    with atomic_writer(out, "wb") as file:
        file.write(content)
    return out


def _torchscript(deployed: Deployed, images: Tensor, facts: Any) -> tuple[bytes, Tensor]:
    """The content of a TorchScript file, and the classes that it predicts."""
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tracing: sizes are constants here, and are meant to be
        traced = torch.jit.trace(deployed, images, check_trace=False)
    torch.jit.save(traced, content, _extra_files={FACTS: json.dumps(facts)})
    content.seek(0)
    with torch.jit.optimized_execution(False):
        classes = torch.jit.load(content, map_location=images.device)(images)
    return content.getvalue(), classes


def _onnx(deployed: Deployed, images: Tensor, facts: Any) -> tuple[bytes, Tensor]:
    """The same of an ONNX file."""
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise ConfigError(
            f"format: onnx needs {error.name}, which is not installed: pip install 'fedseg[export]'"
        ) from error
    made = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tracing: sizes are constants here, and are meant to be
        torch.onnx.export(
            deployed.cpu(),
            (images.cpu(),),
            made,
            input_names=["images"],
            output_names=["classes"],
            dynamic_axes={"images": {0: "batch"}, "classes": {0: "batch"}},
            dynamo=False,  # the other exporter takes a minute
        )
    model = onnx.load_from_string(made.getvalue())
    model.metadata_props.add(key=FACTS, value=json.dumps(facts))
    onnx.checker.check_model(model)
    content = model.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    classes = session.run(None, {"images": images.cpu().numpy()})[0]
    return content, torch.from_numpy(classes)


def _check_equal(logits: Tensor, classes: Tensor, out: Path) -> None:
    """Raise DataError unless a file to be has the classes of the logits, but for ties."""
    logits, classes = logits.detach().cpu().double(), classes.cpu()
    best = logits.max(1)
    taken = logits.gather(1, classes[:, None])[:, 0]
    wrong = (best.values - taken > TIE * logits.abs().max()) & (best.indices != classes)
    if wrong.any():
        raise DataError(
            f"{out}: is not written: it would predict other classes than the run's model in "
            f"{int(wrong.sum())} of {wrong.numel()} places: use another format"
        )


def _check_names(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Raise ConfigError unless a model that others build from the config has these weights."""
    if build(MODELS, deepcopy(dict(config)), "model").state_dict().keys() != weights.keys():
        raise ConfigError(
            "format: this run's model has layers that its config alone does not build, such as "
            "adapters: use torchscript or onnx"
        )


def _normalization(predictor: Predictor) -> tuple[list[float], list[float]]:
    """Mean and deviation of each channel, of images in 0..1."""
    steps = list(predictor.loader.get("transforms") or ())
    if [step["type"] for step in steps] == ["Normalize"]:
        return list(steps[0]["mean"]), list(steps[0]["std"])
    preprocessor = predictor.runner.model.data_preprocessor
    if steps or not isinstance(preprocessor, ImagePreprocessor):
        raise ConfigError(
            "model.data_preprocessor: only ImagePreprocessor, or a single Normalize in "
            "test_dataloader's transforms, can be exported"
        )
    return preprocessor.mean, preprocessor.std


def _photograph(
    predictor: Predictor, size: tuple[int, int] | None
) -> tuple[tuple[int, int] | None, np.ndarray]:
    """The size of class maps, and a photograph of it: the first test image, or noise."""
    image = None
    try:
        files = build(DATASETS, predictor.loader["dataset"], "test_dataloader").files
        image = read_image(str(files[0][0]))
        size = size or image.shape[:2]
    except (AttributeError, UserError, OSError):  # arrays, or not there
        pass
    if size is None and predictor.maps:
        made = [
            predictor.pipeline(np.zeros((*s, 3), np.uint8), np.zeros(s, np.uint8), 0)
            for s in ((64, 96), (96, 64))
        ]
        if made[0][0].shape != made[1][0].shape:
            raise ConfigError("size: is missing: give HEIGHTxWIDTH of the photographs")
        size = made[0][1].shape if made[0][1].shape == made[1][1].shape else made[0][0].shape[:2]
    size = size or (224, 224)
    if image is None:
        image = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    image = cv2.resize(image, size[::-1])
    return (tuple(size) if predictor.maps else None), image


# ---------------------------------------------------------------- MMSegmentation


def _write_mmseg(
    predictor: Predictor, weights: Mapping[str, Tensor], mean: Any, std: Any, out: Path
) -> Path:
    """``config.py`` and ``checkpoint.pth`` for its ``init_model`` and ``inference_model``."""
    from mmseg.models.segmentors import EncoderDecoder

    model = predictor.runner.model
    network = getattr(model, "network", None)
    config = getattr(model, "network_config", None)
    if not isinstance(network, EncoderDecoder) or config is None:
        raise ConfigError("format: mmseg is for models whose network is an EncoderDecoder's config")
    state = {
        name.removeprefix("network."): value
        for name, value in weights.items()
        if name.startswith("network.") and not name.startswith("network.auxiliary_head.")
    }
    _check_names({**config, "auxiliary_head": None}, state)
    windows = config.get("test_cfg") or {"mode": "whole"}
    config = _scoped({**config, "auxiliary_head": None, "test_cfg": dict(windows)})
    head = config["decode_head"]
    if model.align_corners and not head["type"].endswith(("PixelShuffleHead", "FCNHead")):
        raise ConfigError(f"model.align_corners: would change how {head['type']} resizes inside")
    head["align_corners"] = model.align_corners
    config["data_preprocessor"] = {
        "type": "SegDataPreProcessor",
        "mean": [255 * value for value in mean],
        "std": [255 * value for value in std],
        "bgr_to_rgb": True,
    }
    # padded by nothing: logits are resized to the photograph's size at once, as the suite does
    steps = [{"type": "LoadImageFromFile"}, {"type": "Pad", "size_divisor": 1}]
    steps += [made for step in predictor.pipeline.steps if (made := _resize_step(step))]
    steps.append({"type": "PackSegInputs"})
    text = "\n".join(
        f"{name} = {pformat(value, sort_dicts=False, width=100)}\n"
        for name, value in {
            "default_scope": "mmseg",
            "custom_imports": {"imports": ["fedseg.registry"], "allow_failed_imports": False},
            "model": config,
            "test_pipeline": steps,
            "test_dataloader": {"dataset": {"pipeline": steps}},
        }.items()
        if name != "custom_imports" or "fedseg." in str(config)
    )
    classes = predictor.classes
    meta = {"classes": tuple(classes.names), "palette": [list(c) for c in classes.palette]}
    write_text(out / "config.py", text)
    with atomic_writer(out / "checkpoint.pth", "wb") as file:
        torch.save({"meta": {"dataset_meta": meta}, "state_dict": state}, file)
    return out


def _scoped(value: Any) -> Any:
    """A config whose types are names, the suite's own with its scope."""
    if isinstance(value, Mapping):
        return {key: _scoped(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_scoped, value))
    name = value.__name__ if isinstance(value, type) else value
    return f"fedseg.{name}" if isinstance(name, str) and name in MODELS.modules else name


def _resize_step(step: Mapping[str, Any]) -> dict[str, Any] | None:
    """A step of the test pipeline as MMSegmentation's; None for one that leaves the image."""
    kinds = ("nearest", "bilinear", "bicubic", "area", "lanczos")  # OpenCV's numbers
    if step["type"] == "ResizeLabel":
        return None
    made = {"type": "Resize", "keep_ratio": False, "interpolation": "bilinear"}
    if step["type"] == "ResizeInput":
        backend = "pillow" if step.get("antialias") else "cv2"
        return {**made, "scale": tuple(step["size"])[::-1], "backend": backend}
    if step["type"] == "Resize" and step.keys() <= {"type", "height", "width", "interpolation"}:
        name = kinds[step.get("interpolation", 1)]
        return {**made, "scale": (step["width"], step["height"]), "interpolation": name}
    raise ConfigError(
        f"test_dataloader: {step['type']} of the pipeline has no counterpart in mmseg"
    )
