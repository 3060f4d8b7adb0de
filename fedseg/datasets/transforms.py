"""The pipeline of a sample after reading: albumentations and our transforms, seeded per sample."""

import inspect
import math
import random
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import albumentations as A
import cv2
import numpy as np
from annotated_types import Interval
from PIL import Image
from pydantic import BeforeValidator, NonNegativeInt, PositiveInt
from pydantic_core import PydanticCustomError

from fedseg.config.arguments import Positive, Share, check_arguments, check_value
from fedseg.errors import ConfigError
from fedseg.names import did_you_mean
from fedseg.registry import TRANSFORMS

IGNORE = 255
NEAREST = (cv2.INTER_NEAREST, cv2.INTER_NEAREST_EXACT)
SEED_MASK = 2**64 - 1
Size = tuple[PositiveInt, PositiveInt]  # (height, width)
Byte = Annotated[int, Interval(ge=0, le=255)]


def _check_scale(value: Any) -> Any:
    if not isinstance(value, list | tuple) or len(value) != 2:
        message = "Input should be (lowest, highest), both greater than 0"
        raise PydanticCustomError("scale", message)
    return value


Scale = Annotated[tuple[Positive, Positive], BeforeValidator(_check_scale)]


class Pipeline:
    """Transforms of image and label map together, a pure function of (image, label, seed).

    A step is ``dict(type=name, **arguments)``. The name is looked up in
    :data:`fedseg.registry.TRANSFORMS`, then in albumentations. Steps that hold others (``OneOf``,
    ``SomeOf``, ...) take ``transforms=[step, ...]``. Where a transform of albumentations pads, the
    label is padded with 255 (ignored) unless ``fill_mask`` says otherwise: its own default would be
    class 0.

    Args:
        steps: the steps in order.
        field: where they stand in the config, for messages.
    """

    def __init__(self, steps: Sequence[Mapping[str, Any]] = (), field: str = "dataset.pipeline"):
        self.steps = steps
        self.field = field
        built = [build_transform(step, f"{field}[{i}]") for i, step in enumerate(steps)]
        self._compose = A.Compose(built) if built else None

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        # Loader workers build their own: some transforms of albumentations cannot be pickled.
        return type(self), (self.steps, self.field)

    def __call__(
        self, image: np.ndarray, label: np.ndarray, seed: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Transform uint8 [H, W, 3] and uint8 [H, W]; the seed fixes every draw."""
        sample = self.transform(seed, image=image, mask=label)
        return sample["image"], sample["mask"]

    def transform(self, seed: int, **sample: np.ndarray) -> dict[str, np.ndarray]:
        """The same for arrays by albumentations' names: ``image``, ``mask``, or both."""
        if self._compose is None:
            return sample
        # One pair of generators for all steps. Compose.set_random_seed would give every step a
        # generator of its own with the same seed: then the flip decides the scale.
        seed &= SEED_MASK
        generator = np.random.Generator(np.random.Philox(key=seed))
        self._compose.set_random_state(generator, random.Random(seed))
        results = self._compose(**sample)
        for name, before in sample.items():
            after = results[name]
            is_uint8 = isinstance(after, np.ndarray) and after.dtype == np.uint8
            if not is_uint8 or after.ndim != before.ndim:
                raise ConfigError(
                    f"{self.field}: must keep the {name} uint8 with {before.ndim} dimensions: "
                    "leave normalization and tensors to model.data_preprocessor"
                )
        return results


def build_transform(step: Mapping[str, Any], field: str) -> A.BasicTransform | A.BaseCompose:
    """Build one step of a config; see :class:`Pipeline`."""
    if not isinstance(step, Mapping) or not isinstance(step.get("type"), str):
        raise ConfigError(f"{field}: a step is dict(type='Name', ...), not {step!r}")
    arguments = dict(step)
    name = arguments.pop("type")
    cls = find_transform(name, field)
    if isinstance(arguments.get("transforms"), Sequence):
        arguments["transforms"] = [
            build_transform(inner, f"{field}.transforms[{i}]")
            for i, inner in enumerate(arguments["transforms"])
        ]
    check_arguments(cls, arguments, field)  # albumentations would only warn of an unknown one
    check_value(f"{field}.p", arguments.get("p", 1.0), Share)  # and take True for 1
    known = inspect.signature(cls).parameters
    # None means that the transform leaves the label alone, as CoarseDropout does.
    if "fill_mask" in known and known["fill_mask"].default not in (None, inspect.Parameter.empty):
        arguments.setdefault("fill_mask", IGNORE)
    if arguments.get("mask_interpolation", cv2.INTER_NEAREST) not in NEAREST:
        raise ConfigError(
            f"{field}.mask_interpolation: must be one of {NEAREST} (nearest), others mix label ids"
        )
    if "InitSchema" in vars(cls):
        arguments["strict"] = True  # else a value that fails validation may turn into a default
    try:
        transform = cls(**arguments)
    except (TypeError, ValueError, ConfigError) as error:
        raise ConfigError(f"{field}: {name}: {error}") from error
    needed = {*getattr(transform, "targets_as_params", ())}
    if "BBoxSafe" in name:
        needed.add("bboxes")
    missing = needed - {"image", "mask"}
    if missing:
        raise ConfigError(f"{field}: {name}: needs {min(missing)}, which no data set here gives")
    return transform


def _is_transform(cls: Any) -> bool:
    return inspect.isclass(cls) and issubclass(cls, A.BasicTransform | A.BaseCompose)


def is_foreign_transform(name: str) -> bool:
    """True if albumentations has a transform of this name."""
    return _is_transform(getattr(A, name, None))


def find_transform(name: str, field: str) -> type:
    """Find the transform class of a name: a registered one first, else albumentations'."""
    TRANSFORMS.import_from_location()
    registered = TRANSFORMS.module_dict
    cls = registered.get(name, getattr(A, name, None))
    if not _is_transform(cls):
        if name in registered:
            raise ConfigError(
                f"{field}: {name} is not a transform: a style transfer goes in dataset.style"
            )
        theirs = [n for n in dir(A) if inspect.isclass(getattr(A, n)) and n[0].isupper()]
        hint = did_you_mean(name, [*registered, *theirs])
        raise ConfigError(
            f"{field}: unknown transform {name!r}{hint}; use one of albumentations, or register "
            "your own in fedseg.registry.TRANSFORMS"
        )
    return cls


@TRANSFORMS.register_module()
class RandomScaleCrop(A.DualTransform):
    """Random scale, then random crop; only the part that is kept is ever resized.

    The image is scaled by s ~ U(scale) and a window of ``crop_size`` placed on it uniformly (where
    the scaled image is smaller, it is placed uniformly in the window, and the rest is padding).
    For speed the window is cut from the source first, to whole pixels, and then resized: linear for
    the image, nearest for the label, both with pixel centers aligned.

    Args:
        scale: (lowest, highest) scale.
        crop_size: (height, width) of the result.
        base_size: (height, width) that scale 1 stands for, so that the same part of a scene is seen
            whatever the resolution of the files; None: the size of each image.
        fill: padding value of the image, one number or R, G, B.
        fill_mask: padding value of the label.
        p: probability that the step is applied at all.
    """

    def __init__(
        self,
        scale: Scale,
        crop_size: Size,
        base_size: Size | None = None,
        fill: Byte | tuple[Byte, Byte, Byte] = 127,
        fill_mask: Byte = IGNORE,
        p: float = 1.0,
    ) -> None:
        super().__init__(p=p)
        if scale[0] > scale[1]:
            raise ValueError(f"scale must be (lowest, highest), not {scale!r}")
        self.scale = (float(scale[0]), float(scale[1]))
        self.crop_size = tuple(crop_size)
        self.base_size = None if base_size is None else tuple(base_size)
        self.fill = fill if isinstance(fill, int) else tuple(fill)
        self.fill_mask = fill_mask

    def get_params_dependent_on_data(
        self, params: dict[str, Any], data: dict[str, Any]
    ) -> dict[str, Any]:
        size = params["shape"][:2]
        scale = self.py_random.uniform(*self.scale)
        rows, columns = (
            self._window(source, scale * (base / source), crop)
            for source, base, crop in zip(size, self.base_size or size, self.crop_size, strict=True)
        )
        return {"rows": rows, "columns": columns}

    def _window(self, source: int, scale: float, crop: int) -> tuple[int, int, int, int]:
        """Along one axis: (source start, source length, result start, result length)."""
        scaled = max(1, round(source * scale))
        if scaled >= crop:
            length = min(source, max(1, round(crop / scale)))
            return self.py_random.randint(0, source - length), length, 0, crop
        return 0, source, self.py_random.randint(0, crop - scaled), scaled

    def apply(self, img: np.ndarray, **params: Any) -> np.ndarray:
        return self._cut(img, cv2.INTER_LINEAR, self.fill, params)

    def apply_to_mask(self, mask: np.ndarray, **params: Any) -> np.ndarray:
        return self._cut(mask, cv2.INTER_NEAREST_EXACT, self.fill_mask, params)

    def _cut(
        self, array: np.ndarray, interpolation: int, fill: Any, params: dict[str, Any]
    ) -> np.ndarray:
        y, height, top, new_height = params["rows"]
        x, width, left, new_width = params["columns"]
        part = array[y : y + height, x : x + width]
        part = cv2.resize(part, (new_width, new_height), interpolation=interpolation)
        if (new_height, new_width) == self.crop_size:
            return part
        result = np.full((*self.crop_size, *array.shape[2:]), fill, array.dtype)
        result[top : top + new_height, left : left + new_width] = part
        return result


@TRANSFORMS.register_module()
class ResizeInput(A.ImageOnlyTransform):
    """Resize the image and leave the label: the model sees less than it is scored at.

    Args:
        size: (height, width) of the result.
        antialias: by Pillow's bilinear filter, which averages over what a pixel covers; else by
            OpenCV's, which interpolates between four pixels.
    """

    def __init__(self, size: Size, antialias: bool = False) -> None:
        super().__init__(p=1.0)
        self.size, self.antialias = tuple(size), antialias

    def apply(self, img: np.ndarray, **params: Any) -> np.ndarray:
        if self.antialias:
            image = Image.fromarray(img)
            return np.array(image.resize(self.size[::-1], Image.Resampling.BILINEAR))
        return cv2.resize(img, self.size[::-1], interpolation=cv2.INTER_LINEAR)


@TRANSFORMS.register_module()
class ResizeLabel(A.DualTransform):
    """Resize the label (nearest) and leave the image.

    Args:
        size: (height, width) of the result.
    """

    def __init__(self, size: Size) -> None:
        super().__init__(p=1.0)
        self.size = tuple(size)

    def apply(self, img: np.ndarray, **params: Any) -> np.ndarray:
        return img

    def apply_to_mask(self, mask: np.ndarray, **params: Any) -> np.ndarray:
        return cv2.resize(mask, self.size[::-1], interpolation=cv2.INTER_NEAREST_EXACT)


# ---- transforms that FedDrive's released code draws in its own way (see docs/feddrive.md)


@TRANSFORMS.register_module()
class RandomAreaCrop(A.DualTransform):
    """Crop a random area at a random aspect ratio, and resize it: torchvision's RandomResizedCrop.

    The area is the image's times U(``area``), the logarithm of the aspect ratio (width / height) is
    uniform. A crop that does not fit into the image is drawn again, ``tries`` times in all; then
    the largest central crop is taken whose aspect ratio is allowed. Areas above 1 never fit, so
    that with FedDrive's U(0.5, 2) most crops of its wide images are that central one.

    The result does not keep the crop's aspect ratio. The image is resized by Pillow's bilinear
    filter, which averages over what a pixel covers; the label takes the nearest.

    Args:
        size: (height, width) of the result.
        area: (smallest, largest) share of the image's area.
        aspect: (smallest, largest) aspect ratio.
        tries: draws before the central crop.
    """

    def __init__(
        self,
        size: Size,
        area: Scale = (0.5, 2.0),
        aspect: Scale = (3 / 4, 4 / 3),
        tries: NonNegativeInt = 10,
    ) -> None:
        super().__init__(p=1.0)
        for name, (low, high) in (("area", area), ("aspect", aspect)):
            if high < low:
                raise ValueError(f"{name} must be (smallest, largest), not {(low, high)}")
        self.size = tuple(size)
        self.area = tuple(area)
        self.aspect = tuple(aspect)
        self.tries = tries

    def get_params_dependent_on_data(
        self, params: dict[str, Any], data: dict[str, Any]
    ) -> dict[str, Any]:
        return {"window": self.draw(*params["shape"][:2])}

    def draw(self, height: int, width: int) -> tuple[int, int, int, int]:
        """A window (top, left, height, width) for an image of this size."""
        for _ in range(self.tries):
            area = height * width * self.py_random.uniform(*self.area)
            ratio = math.exp(self.py_random.uniform(*map(math.log, self.aspect)))
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= width and 0 < h <= height:
                return (
                    self.py_random.randint(0, height - h),
                    self.py_random.randint(0, width - w),
                    h,
                    w,
                )
        low, high = self.aspect
        h, w = min(height, round(width / low)), min(width, round(height * high))
        return (height - h) // 2, (width - w) // 2, h, w

    def apply(self, img: np.ndarray, **params: Any) -> np.ndarray:
        return self._cut(img, Image.Resampling.BILINEAR, params["window"])

    def apply_to_mask(self, mask: np.ndarray, **params: Any) -> np.ndarray:
        return self._cut(mask, Image.Resampling.NEAREST, params["window"])

    def _cut(self, array: np.ndarray, resampling: int, window: tuple[int, ...]) -> np.ndarray:
        top, left, h, w = window
        part = Image.fromarray(np.ascontiguousarray(array[top : top + h, left : left + w]))
        return np.array(part.resize(self.size[::-1], resampling))


@TRANSFORMS.register_module()
class ChannelMeanJitter(A.ImageOnlyTransform):
    """Random brightness, contrast and saturation, always in this order.

    Each factor f is U(1 - strength, 1 + strength). Brightness multiplies by f. Contrast moves
    values away from 74: f x + (1 - f) 74. Saturation moves a pixel's channels away from their mean
    m: f x + (1 - f) m, where other libraries take the luma. Each result is clipped and truncated.

    Args:
        brightness, contrast, saturation: the strengths.
    """

    MIDDLE = 74

    def __init__(
        self, brightness: Share = 0.4, contrast: Share = 0.4, saturation: Share = 0.4
    ) -> None:
        super().__init__(p=1.0)
        self.strengths = (brightness, contrast, saturation)

    def get_params(self) -> dict[str, Any]:
        return {"factors": [self.py_random.uniform(1 - s, 1 + s) for s in self.strengths]}

    def apply(self, img: np.ndarray, factors: Sequence[float], **params: Any) -> np.ndarray:
        brightness, contrast, saturation = factors
        values = np.clip(np.arange(256) * brightness, 0, 255).astype(np.uint8)
        values = self.MIDDLE + (values - float(self.MIDDLE)) * contrast
        image = cv2.LUT(img, np.clip(values, 0, 255).astype(np.uint8)).astype(np.float32)
        mix = saturation * np.eye(3) + (1 - saturation) / 3
        return np.clip(cv2.transform(image, mix), 0, 255).astype(np.uint8)
