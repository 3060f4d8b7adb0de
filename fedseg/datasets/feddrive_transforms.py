"""The transforms that FedDrive's released code draws in its own way (see docs/feddrive.md)."""

import math
from collections.abc import Sequence
from typing import Any

import albumentations as A
import cv2
import numpy as np
from PIL import Image
from pydantic import NonNegativeInt, PositiveFloat

from fedseg.config.schema import Share
from fedseg.datasets.transforms import Size
from fedseg.registry import TRANSFORMS


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
        area: tuple[PositiveFloat, PositiveFloat] = (0.5, 2.0),
        aspect: tuple[PositiveFloat, PositiveFloat] = (3 / 4, 4 / 3),
        tries: NonNegativeInt = 10,
    ) -> None:
        super().__init__(p=1.0)
        for name, (low, high) in (("area", area), ("aspect", aspect)):
            if high < low:
                raise ValueError(f"{name} must be (smallest, largest), not {(low, high)}")
        self.size, self.area, self.aspect = tuple(size), tuple(area), tuple(aspect)
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
