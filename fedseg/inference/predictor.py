"""A run's model for images of any origin, prepared as the run's test images are."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from PIL import Image
from pydantic import PositiveInt
from torch.utils.data import Dataset

from fedseg.config.schema import check_value
from fedseg.core.forward import forward
from fedseg.datasets.arrays import ImageArrays, ShakespeareDataset
from fedseg.datasets.images import read_image, read_size
from fedseg.datasets.photos import PIPELINES, PhotoDataset
from fedseg.datasets.segmentation import SegmentationDataset
from fedseg.datasets.transforms import Pipeline
from fedseg.errors import ConfigError, DataError, UserError
from fedseg.evaluation.domains import DomainEvaluator, EvalTask, statistics_of
from fedseg.evaluation.sets import EvaluationSet, build_evaluation_set
from fedseg.files import own_path
from fedseg.loaders.partitioned import balanced_batches
from fedseg.registry import DATASETS, build, find_class
from fedseg.report.pictures import Classes, read_classes
from fedseg.runner import logs
from fedseg.runner.build import build_evaluation
from fedseg.runner.checkpoint import load_checkpoint
from fedseg.runner.experiment import Options
from fedseg.runner.recorded import newest_checkpoint, recorded
from fedseg.runner.runner import FederatedRunner
from fedseg.runs.schema import FILE_NAME, read_results_file

# steps of a test pipeline after which an image still shows all of the photograph
RESIZES = {"Resize", "ResizeInput", "ResizeLabel", "LongestMaxSize", "SmallestMaxSize"}
STATISTICS = ("batch", "images")
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
    """Images without labels as samples; class maps get the size of the photograph.

    Where the pipeline does more than resize, a map has the size of its label, as evaluation has it.
    """

    seeded, domains = True, None

    def __init__(self, images: Sequence[Pixels], pipeline: Pipeline, maps: bool) -> None:
        self.images, self.pipeline, self.maps = images, pipeline, maps
        self.resizes = {step["type"] for step in pipeline.steps} <= RESIZES

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, key: tuple[int, int]) -> dict[str, torch.Tensor]:
        image = pixels_of(self.images[key[0]])
        sample, label = {"image": image}, np.zeros(image.shape[:2], np.uint8)
        made = self.pipeline.transform(key[1], **sample, **({"mask": label} if self.maps else {}))
        label = label if self.resizes else made.get("mask")
        inputs = torch.from_numpy(np.ascontiguousarray(made["image"].transpose(2, 0, 1)))
        return {"inputs": inputs, "data_samples": torch.tensor(0 if not self.maps else label)}


@dataclass(frozen=True)
class Prediction:
    """Of an image: its class map, or its class and the probability of each."""

    index: int  # of the image
    classes: np.ndarray  # int64 [H, W] or []
    probabilities: np.ndarray | None = None  # float32 [C]


@dataclass
class Predictor:
    """A model that predicts images; see :func:`opened`."""

    runner: FederatedRunner
    classes: Classes
    loader: Mapping[str, Any]  # the entry of test_dataloader whose preprocessing is used
    kind: type  # its data set's class
    domain: str | None = None
    statistics: str | None = None  # one of STATISTICS

    def __str__(self) -> str:
        layers = self.runner.batchnorm is not None and self.runner.batchnorm.layers
        told = "each batch" if layers else "the run"
        told = "the images" if self.statistics == "images" else self.domain or told
        return f"statistics of {told}"

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

    def model(self, test: EvaluationSet | None = None, batches: Any = None) -> EvalTask:
        """The model as a task without samples; ``batches`` of ``test`` give it statistics."""
        runner, policy = self.runner, self.runner.batchnorm
        domains = DomainEvaluator(self.runner, [])
        w, buffers = runner.evaluated_model()
        if self.domain is not None:
            return EvalTask([], *domains.model_of(self.domain, w, buffers))
        w, buffers = domains.shared_model(w, buffers)
        if self.statistics == "images" and test is not None:
            pairs = (batch for _, batch in test.batches(batches, pin_memory=False))
            buffers = statistics_of(runner.flat, pairs, w, buffers, runner.autocast)
        by_batch = self.statistics == "batch" or (
            self.statistics is None and policy and policy.layers
        )
        return EvalTask([], w, buffers, bool(by_batch))

    def predict(
        self, images: Sequence[Pixels], batch_size: int | None = None
    ) -> Iterator[Prediction]:
        """Predict images, in batches of one size; the order is theirs only within a size.

        Args:
            images: files, or uint8 [H, W, 3] RGB.
            batch_size: default: that of the run's test images.
        """
        try:
            yield from self._predict(images, batch_size)
        except (ValueError, ConfigError) as error:
            if "more than 1 value per channel" not in str(error):  # after global pooling
                raise
            raise ConfigError(
                "images: this network has no BatchNorm statistics of a single image: predict at "
                "least two of one size together (--batch-size), or name a --domain"
            ) from error

    def _predict(self, images: Sequence[Pixels], batch_size: int | None) -> Iterator[Prediction]:
        check_value("batch_size", batch_size, PositiveInt | None)
        if not len(images):
            return
        test, sizes = self._set_of(images), self._sizes(images)
        groups: dict[Any, list[int]] = {}
        for index, size in enumerate(sizes):
            groups.setdefault(size, []).append(index)
        most = batch_size or self.loader.get("batch_size", 1)
        plan = [b for held in groups.values() for b in balanced_batches(np.array(held), most)]
        task = self.model(test, plan)
        task = EvalTask(plan, task.w, task.buffers, task.batch_statistics)
        for indices, data, predictions in DomainEvaluator(self.runner, [test])._predict(test, task):
            shares = [None] * len(indices)
            if not self.maps:
                with torch.no_grad(), self.runner.autocast():
                    logits = forward(self.runner.model, {"inputs": data["inputs"]}, "tensor")
                shares = logits.float().softmax(1).cpu().numpy()
            for index, classes, share in zip(
                indices, predictions.cpu().numpy(), shares, strict=True
            ):
                yield Prediction(index, classes, share)

    def _sizes(self, images: Sequence[Pixels]) -> list[Any]:
        if not self.maps:
            return [None] * len(images)
        sizes: list[Any] = []
        for number, image in enumerate(images):
            try:
                of_file = not isinstance(image, np.ndarray)
                sizes.append(read_size(str(image)) if of_file else image.shape[:2])
            except Exception:  # a format that only its decoder knows: alone in its batch
                sizes.append(number)
        return sizes

    def _set_of(self, images: Sequence[Pixels]) -> EvaluationSet:
        """The images as a test set of the run's own kind."""
        loader = {key: self.loader[key] for key in ("type", "transforms") if key in self.loader}
        if issubclass(self.kind, ImageArrays) and self.kind is not ShakespeareDataset:
            height, width, channels = self.shape
            pixels = [_resized(pixels_of(one), (width, height), channels) for one in images]
            zeros = np.zeros(len(images), np.int64)
            dataset: Any = ImageArrays(np.stack(pixels), zeros, self.classes.names)
        elif issubclass(self.kind, SegmentationDataset | PhotoDataset):
            dataset = Photos(images, self.pipeline, self.maps)
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

        Corrupted images are left out.
        """
        if self.domain is not None or self.statistics is not None:
            raise ConfigError("--domain and --statistics do not apply to the test images (-)")
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
    statistics: str | None = None,
    device: str | None = None,
    amp: bool | None = None,
    options: Options = (),
    trust: Sequence[str] = (),
) -> Iterator[Predictor]:
    """A run's model, ready to predict; its recorded config is read as data.

    Args:
        folder: the work dir of the run.
        checkpoint: default: the newest; of its two models the averaged one, if it has one.
        domain: BatchNorm takes the statistics of this domain's clients, or of this client.
        statistics: ``batch``: those of each batch, the default where they stay with the clients;
            ``images``: averages over all images that are predicted.
        device: such as ``cuda``; default: the run's, if there is one.
        amp: predict in bfloat16; default: as in the run.
        options: overrides of config fields.
        trust: modules whose classes the run's recorded config may name.
    """
    folder = Path(folder)
    if statistics is not None and (domain is not None or statistics not in STATISTICS):
        raise ConfigError(f"statistics: must be one of {', '.join(STATISTICS)}, without domain")
    path = Path(checkpoint) if checkpoint else newest_checkpoint(folder)[1]
    payload = load_checkpoint(path)
    options = [options] if isinstance(options, str | Mapping) else [*options]
    options += [f"device={device}"] if device else []
    options += [] if amp is None else [f"train_cfg.amp={amp}"]
    with TemporaryDirectory() as place, recorded(folder, Path(place), options, trust) as (cfg, _):
        runner = FederatedRunner.from_cfg(cfg)
        with logs.closing_log(runner.logger):
            runner.open_checkpoint(path, payload)
            yield _predictor(runner, folder, domain, statistics)


def _predictor(
    runner: FederatedRunner, folder: Path, domain: str | None, statistics: str | None
) -> Predictor:
    loaders = runner.cfg.test_dataloader or {}
    usual = [one for one in loaders.values() if one and one.get("type") != "CorruptedData"]
    if not usual:
        raise ConfigError(
            f"{folder}: the run has no test_dataloader, which defines how images are preprocessed"
        )
    kind = find_class(DATASETS, usual[0]["dataset"], "test_dataloader")
    layers = runner.batchnorm.layers if runner.batchnorm is not None else ()
    if statistics == "batch" and not layers:
        raise ConfigError("statistics: this run averages BatchNorm's statistics: leave 'batch' out")
    loader = usual[0].to_dict()
    classes = _classes(kind, loader, folder, runner.cfg.model.get("num_classes"))
    return Predictor(runner, classes, loader, kind, domain, statistics)


def _classes(kind: type, loader: Mapping[str, Any], folder: Path, count: int | None) -> Classes:
    """Names and colors: of the data set's class, of its files, of the results, or numbers."""
    names, palette = getattr(kind, "classes", None), getattr(kind, "palette", None)
    if not isinstance(names, tuple):
        try:
            dataset = build(DATASETS, loader["dataset"], "test_dataloader.dataset")
            return read_classes(dataset.metainfo)
        except UserError:  # it is not there: images are predicted without it
            names = None
    if names is None and (folder / FILE_NAME).is_file():
        for entry in read_results_file(own_path(folder, FILE_NAME)).final.values():
            names = names or entry.get("IoU") or entry.get("accuracy_by_class")
    meta = {"classes": list(names) if names else [str(i) for i in range(count or 256)]}
    return read_classes(meta if palette is None else {**meta, "palette": palette})
