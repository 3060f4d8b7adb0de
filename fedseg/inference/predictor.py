"""A run's model for images of any origin, prepared as the run's test images are."""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from PIL import Image
from pydantic import PositiveInt
from torch import Tensor, nn
from torch.utils.data import Dataset

from fedseg.batchnorm import batch_statistics_where_defined
from fedseg.config.arguments import check_value
from fedseg.core.forward import forward, prepare_batch
from fedseg.datasets.arrays import ImageArrays, ShakespeareDataset
from fedseg.datasets.images import read_image, read_size
from fedseg.datasets.photos import PIPELINES, PhotoDataset
from fedseg.datasets.segmentation import SegmentationDataset
from fedseg.datasets.transforms import Pipeline
from fedseg.errors import ConfigError, DataError, printable
from fedseg.evaluation.models import ClientModels
from fedseg.evaluation.sets import EvaluationSet, build_evaluation_set
from fedseg.evaluation.tasks import layers_by_batch, load_model
from fedseg.files import own_path
from fedseg.loaders.partitioned import balanced_batches
from fedseg.registry import DATASETS, build, find_class
from fedseg.report.segmentation import Classes, read_classes
from fedseg.runner import logs
from fedseg.runner.build import build_evaluation
from fedseg.runner.checkpoint import load_checkpoint
from fedseg.runner.experiment import Options
from fedseg.runner.recorded import newest_checkpoint, recorded
from fedseg.runner.runner import FederatedRunner
from fedseg.runs.schema import FILE_NAME, read_results_file
from fedseg.trust import Trust

# steps of a test pipeline after which an image still shows all of the photograph
# opening and closing runs, one at a time: MMEngine keeps loggers and registries of the process
_IN_TURN = threading.RLock()
RESIZES = {"Resize", "ResizeInput", "ResizeLabel", "LongestMaxSize", "SmallestMaxSize"}
Pixels = str | Path | np.ndarray  # a file, or uint8 [H, W, 3], RGB


def pixels_of(image: Pixels) -> np.ndarray:
    """An image as displayed, uint8 [H, W, 3], RGB."""
    if not isinstance(image, np.ndarray):
        return read_image(str(image))
    image = np.repeat(image[..., None], 3, 2) if image.ndim == 2 else image
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
        raise DataError(f"images: must be uint8 [H, W, 3] RGB, not {image.dtype} {image.shape}")
    return image


class Photos(Dataset):
    """Photographs without labels as samples; class maps get the size of the photograph.

    Where the pipeline does more than resize, a map has the size of its label, as evaluation has it.
    """

    seeded, domains = True, None

    def __init__(self, photos: Sequence[np.ndarray], pipeline: Pipeline, maps: bool) -> None:
        self.photos = photos
        self.pipeline = pipeline
        self.maps = maps
        self.resizes = {step["type"] for step in pipeline.steps} <= RESIZES

    def __len__(self) -> int:
        return len(self.photos)

    def __getitem__(self, key: tuple[int, int]) -> dict[str, torch.Tensor]:
        photo = self.photos[key[0]]
        sample, label = {"image": photo}, np.zeros(photo.shape[:2], np.uint8)
        made = self.pipeline.transform(key[1], **sample, **({"mask": label} if self.maps else {}))
        label = label if self.resizes else made.get("mask")
        inputs = torch.from_numpy(np.ascontiguousarray(made["image"].transpose(2, 0, 1)))
        return {"inputs": inputs, "data_samples": torch.tensor(0 if not self.maps else label)}


@dataclass(frozen=True)
class Prediction:
    """What a model predicts of an image."""

    index: int  # of the image
    image: np.ndarray  # as displayed, uint8 [H, W, 3], RGB
    classes: np.ndarray  # the class map, int64 [H, W], or the class, int64 []
    probabilities: np.ndarray | None = None  # float32 [C], of each class, for classification


def stop_at_damaged(index: int, error: DataError) -> None:
    """Raise the error of an image that cannot be read."""
    raise error


def read_batches(
    images: Sequence[Pixels],
    plan: Sequence[Sequence[int]],
    on_damaged: Callable[[int, DataError], None] = stop_at_damaged,
) -> Iterator[tuple[list[int], list[np.ndarray]]]:
    """(indices, images as displayed) of every batch; threads read the next one meanwhile.

    Args:
        images: files or pixels.
        plan: indices of the images of every batch.
        on_damaged: called with index and error of an image that cannot be read; it is left out.
    """
    with ThreadPoolExecutor() as pool:
        next_batch: list[Any] = []
        for indices in [*plan, []]:
            batch = next_batch
            next_batch = [(index, pool.submit(pixels_of, images[index])) for index in indices]
            readable, photos = [], []
            for index, reading in batch:
                try:
                    photos.append(reading.result())
                    readable.append(index)
                except DataError as error:
                    on_damaged(index, error)
            if readable:
                yield readable, photos


@dataclass
class Predictor:
    """A run's model that predicts images; see :func:`opened`. Threads may share it."""

    runner: FederatedRunner
    classes: Classes
    loader: Mapping[str, Any]  # the entry of test_dataloader whose preprocessing is used
    kind: type  # its data set's class
    domain: str | None  # whose clients' statistics BatchNorm uses
    w: Tensor  # the parameters, flat
    buffers: Tensor  # BatchNorm's statistics and other float buffers, flat
    by_batch: Mapping[str, nn.Module]  # BatchNorm layers that use a batch's statistics, by name
    has_means: bool  # whether ``buffers`` has the clients' mean statistics for these layers
    # layers among them that saw one value a channel and used the mean statistics
    used_means: set[str] = field(default_factory=set)
    # the model holds one set of weights and modes at a time
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def statistics(self) -> str:
        """The source of BatchNorm's statistics so far, in words."""
        if self.domain is not None:
            return f"BatchNorm statistics: of {self.domain}"
        if not self.by_batch:
            return "BatchNorm statistics: of the run"
        text = "BatchNorm statistics: of each batch"
        if self.used_means:
            layers = ", ".join(sorted(self.used_means))
            text += f"; the clients' mean in layers that saw one value a channel: {layers}"
        return text

    @property
    def maps(self) -> bool:
        """True if predictions are class maps."""
        return issubclass(self.kind, SegmentationDataset)

    @property
    def pipeline(self) -> Pipeline:
        """The transforms of a test image before the model's own preprocessing."""
        steps = self.loader["dataset"].get("pipeline")
        if steps is None and issubclass(self.kind, PhotoDataset):
            steps = PIPELINES["test"]
        return Pipeline(steps or ())

    def prepare(self, image: np.ndarray) -> np.ndarray:
        """A photograph, transformed as a test image, not yet normalized: uint8 [C, h, w]."""
        dataset = self._set_of([image]).dataset
        return dataset[0 if isinstance(dataset, ImageArrays) else (0, 0)]["inputs"].numpy()

    def predict(
        self,
        images: Sequence[Pixels],
        batch_size: int | None = None,
        on_damaged: Callable[[int, DataError], None] = stop_at_damaged,
    ) -> Iterator[Prediction]:
        """Predict images, in batches of one size; the order is theirs only within a size.

        Args:
            images: files, or uint8 [H, W, 3] RGB.
            batch_size: default: that of the run's test images.
            on_damaged: see :func:`read_batches`.
        """
        check_value("batch_size", batch_size, PositiveInt | None)
        plan = self._plan(images, batch_size or self.loader.get("batch_size", 1))
        for indices, photos in read_batches(images, plan, on_damaged):
            yield from self._predict_batch(indices, photos)

    def _plan(self, images: Sequence[Pixels], batch_size: int) -> list[list[int]]:
        """Batches of indices of images of one size."""
        groups: dict[Any, list[int]] = {}
        for index, image in enumerate(images):
            groups.setdefault(self._group(index, image), []).append(index)
        plan: list[list[int]] = []
        for indices in groups.values():
            plan += balanced_batches(np.array(indices), batch_size)
        return plan

    def _group(self, index: int, image: Pixels) -> Any:
        """What images of one batch have in common: class maps of one size."""
        if not self.maps:
            return None
        if isinstance(image, np.ndarray):
            return image.shape[:2]
        try:
            return read_size(str(image))
        except Exception:  # a format that only its decoder knows: alone in its batch
            return index

    def _predict_batch(self, indices: list[int], photos: list[np.ndarray]) -> list[Prediction]:
        test, runner = self._set_of(photos), self.runner
        ((_, batch),) = test.batches([list(range(len(photos)))], pin_memory=False)
        with self._lock, torch.no_grad():
            load_model(runner, self.w, self.buffers)
            data = prepare_batch(runner.model, batch, runner.flat.w.dtype, training=False)
            with batch_statistics_where_defined(self.by_batch) as running, runner.autocast():
                classes = forward(runner.model, data, "predict")
                logits = None
                if not self.maps:
                    logits = forward(runner.model, {"inputs": data["inputs"]}, "tensor")
            self._note_means(running)
        probabilities: Any = [None] * len(photos)
        if logits is not None:
            probabilities = logits.float().softmax(1).cpu().numpy()
        parts = zip(indices, photos, classes.cpu().numpy(), probabilities, strict=True)
        return [Prediction(*part) for part in parts]

    def _note_means(self, layers: set[str]) -> None:
        """Note the layers that used the clients' means; ConfigError if there are none."""
        if layers and not self.has_means:
            raise ConfigError(
                f"checkpoint: has no BatchNorm statistics of clients, and {min(layers)} sees one "
                "value a channel of a single image: predict at least two images of one size "
                "together (--batch-size 2), or name a checkpoint that the run wrote"
            )
        self.used_means |= layers

    def _set_of(self, photos: Sequence[np.ndarray]) -> EvaluationSet:
        """Photographs as a test set of the run's own kind."""
        loader = {key: self.loader[key] for key in ("type", "transforms") if key in self.loader}
        if issubclass(self.kind, ImageArrays) and self.kind is not ShakespeareDataset:
            height, width, channels = self.shape
            pixels = [_resized(photo, (width, height), channels) for photo in photos]
            zeros = np.zeros(len(photos), np.int64)
            dataset: Any = ImageArrays(np.stack(pixels), zeros, self.classes.names)
        elif issubclass(self.kind, SegmentationDataset | PhotoDataset):
            dataset = Photos(photos, self.pipeline, self.maps)
        else:
            raise ConfigError(
                f"test_dataloader: the preprocessing of {self.kind.__name__} cannot be applied to "
                "other images: predict only the run's own test images (-)"
            )
        like, loader = self.runner.flat.w, {**loader, "dataset": dataset}
        return build_evaluation_set("images", loader, [], "predict", like)

    @property
    def shape(self) -> tuple[int, int, int]:
        """[H, W, C] of the images that a data set of arrays holds."""
        shape, model = getattr(self.kind, "shape", None), self.runner.model
        if shape is None and getattr(model, "image_size", None):
            shape = (*model.image_size, model.in_channels)
        if shape is None:
            shape = build(DATASETS, self.loader["dataset"], "test_dataloader").images.shape[1:]
        return tuple(shape)

    def test_images(self) -> Iterator[tuple[EvaluationSet, str, int, Any]]:
        """(set, view, sample index, prediction) of the run's test images, as evaluation has them.

        Corrupted images are left out. Nothing else is predicted meanwhile.
        """
        if self.domain is not None:
            raise ConfigError("domain: does not apply to the test images (-): leave it out")
        loop = build_evaluation(self.runner.cfg, "test", self.runner)
        evaluator, sets = loop.domains, [s for s in loop.sets if not hasattr(s.dataset, "groups")]
        evaluator.sets = sets
        chosen = {test.name: test.samples.tolist() for test in sets}
        yield from evaluator.predict_some(*self.runner.evaluated_model(), chosen)


def _resized(image: np.ndarray, size: tuple[int, int], channels: int) -> np.ndarray:
    """The whole photograph at a size, averaged over what a pixel covers, [H, W, C]."""
    picture = Image.fromarray(image).convert("RGB" if channels == 3 else "L")
    if picture.size != size:
        picture = picture.resize(size, Image.Resampling.BILINEAR)
    return np.asarray(picture).reshape(size[1], size[0], channels)


@contextmanager
def opened(
    folder: str | Path,
    checkpoint: str | Path | None = None,
    *,
    domain: str | None = None,
    device: str | None = None,
    amp: bool | None = None,
    options: Options = (),
    trust: Trust = (),
) -> Iterator[Predictor]:
    """A run's model, ready to predict; its recorded config is read as data.

    Args:
        folder: the work dir of the run.
        checkpoint: default: the newest; of its two models the averaged one, if it has one.
        domain: BatchNorm uses the statistics of this domain's clients, or of this client. Default:
            the run's; those of each batch where they stay with the clients, and in a layer that
            sees one value a channel (of a single image) the mean of all clients.
        device: such as ``cuda``; default: the run's, if there is one.
        amp: predict in bfloat16; default: as in the run.
        options: overrides of config fields.
        trust: code of the run that is executed; see :func:`fedseg.trust.import_trusted`.
    """
    opening = _opened(folder, checkpoint, domain, device, amp, options, trust)
    with _IN_TURN:
        predictor = opening.__enter__()
    try:
        yield predictor
    finally:
        with _IN_TURN:
            opening.__exit__(*sys.exc_info())


@contextmanager
def _opened(
    folder: str | Path,
    checkpoint: str | Path | None,
    domain: str | None,
    device: str | None,
    amp: bool | None,
    options: Options,
    trust: Trust,
) -> Iterator[Predictor]:
    folder = Path(folder)
    path = Path(checkpoint) if checkpoint else newest_checkpoint(folder)[1]
    payload = load_checkpoint(path)
    options = [options] if isinstance(options, str | Mapping) else [*options]
    options += [f"device={device}"] if device else []
    options += [] if amp is None else [f"train_cfg.amp={amp}"]
    with TemporaryDirectory() as place, recorded(folder, Path(place), options, trust) as (cfg, _):
        runner = FederatedRunner.from_cfg(cfg)
        with logs.closing_log(runner.logger):
            runner.open_checkpoint(path, payload)
            classes = _read_classes(folder, payload, cfg.model.get("num_classes"))
            yield _predictor(runner, folder, classes, domain)


def _predictor(
    runner: FederatedRunner, folder: Path, classes: Classes, domain: str | None
) -> Predictor:
    loaders = runner.cfg.test_dataloader or {}
    usual = [one for one in loaders.values() if one and one.get("type") != "CorruptedData"]
    if not usual:
        raise ConfigError(
            f"{folder}: the run has no test_dataloader, which defines how images are preprocessed"
        )
    w, buffers = runner.evaluated_model()
    models = ClientModels(runner, w, buffers)
    by_batch: Mapping[str, nn.Module] = {}
    has_means = False
    if domain is not None:
        w, buffers = models.of_domain(domain)
    else:
        by_batch = layers_by_batch(runner)
        mean = models.mean()
        if mean is not None:
            (w, buffers), has_means = mean, True
    return Predictor(
        runner=runner,
        classes=classes,
        loader=usual[0].to_dict(),
        kind=find_class(DATASETS, usual[0]["dataset"], "test_dataloader"),
        domain=domain,
        w=w.clone(),
        buffers=buffers.clone(),
        by_batch=by_batch,
        has_means=has_means,
    )


def _read_classes(folder: Path, checkpoint: Mapping[str, Any], count: int | None) -> Classes:
    """Names of the results, else of the checkpoint, which has the colors; else numbers and hues."""
    meta = dict((checkpoint.get("meta") or {}).get("dataset_meta") or {})
    names = _names_in_results(folder) or meta.get("classes") or map(str, range(count or 256))
    meta["classes"] = [printable(str(name)) for name in names]
    return read_classes(meta)


def _names_in_results(folder: Path) -> list[str]:
    """The classes that a finished run was tested on; empty where its metrics do not name them."""
    if not (folder / FILE_NAME).is_file():
        return []
    for metrics in read_results_file(own_path(folder, FILE_NAME)).final.values():
        by_class = metrics.get("IoU") or metrics.get("accuracy_by_class")
        if by_class:
            return list(by_class)
    return []
