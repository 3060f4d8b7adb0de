"""FedDrive's crops and jitter against independent transcriptions."""

import random

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import InterpolationMode, RandomResizedCrop
from torchvision.transforms import functional as F

from fedseg.datasets.transforms import ChannelMeanJitter, Pipeline, RandomAreaCrop

DRAWS = 10_000
AREA, ASPECT = (0.5, 2.0), (3 / 4, 4 / 3)


def crops(height: int, width: int, area: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Windows (top, left, height, width) [DRAWS, 4]: drawn here, and by torchvision."""
    ours = RandomAreaCrop((8, 8), area=area)
    ours.py_random = random.Random(1)
    torch.manual_seed(2)
    image = torch.empty(1, height, width)
    theirs = [RandomResizedCrop.get_params(image, list(area), list(ASPECT)) for _ in range(DRAWS)]
    return np.array([ours.draw(height, width) for _ in range(DRAWS)]), np.array(theirs)


@pytest.mark.parametrize("size", [(1024, 1856), (1080, 1920)])
def test_windows_are_distributed_as_those_of_torchvision(size):
    """Shares of the central crop, quantiles of area, aspect and place, over 10,000 draws."""
    height, width = size
    for area in (AREA, (0.1, 1.0)):
        both = crops(height, width, area)
        central = np.array(
            [(0, (width - round(height * 4 / 3)) // 2, height, round(height * 4 / 3))]
        )
        shares, values = [], []
        for windows in both:
            top, left, h, w = windows.T
            assert (h >= 1).all() and (top + h <= height).all() and (left + w <= width).all()
            fallback = (windows == central).all(1)
            shares.append(fallback.mean())
            drawn = windows[~fallback]
            top, left, h, w = drawn.T
            places = top / np.maximum(height - h, 1), left / np.maximum(width - w, 1)
            values.append((h * w / (height * width), np.log(w / h), *places))
        assert abs(shares[0] - shares[1]) < 4 * np.sqrt(2 * 0.25 / DRAWS)
        if area == AREA:
            assert 0.02 < shares[0] < 0.6  # and the area of what is drawn stays below 3/4 of these
        for own, other in zip(*values, strict=True):
            quantiles = np.linspace(0.02, 0.98, 25)
            spread = np.ptp(other) or 1
            gap = np.abs(np.quantile(own, quantiles) - np.quantile(other, quantiles)).max()
            assert gap < 0.04 * spread


def test_an_image_that_no_crop_fits_gives_the_central_one():
    for (height, width), expected in {
        (1024, 1856): (0, 245, 1024, 1365),
        (1080, 1920): (0, 240, 1080, 1440),
        (300, 100): (83, 0, 133, 100),
        (90, 100): (0, 0, 90, 100),
    }.items():
        assert RandomAreaCrop((8, 8), area=(3.0, 3.0)).draw(height, width) == expected


def test_the_crop_is_resized_as_pillow_does():
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (60, 110, 3), dtype=np.uint8)
    label = rng.integers(0, 5, (60, 110), dtype=np.uint8)
    step = {"type": "RandomAreaCrop", "size": (20, 36), "area": (9.0, 9.0)}
    made, mask = Pipeline([step])(image, label, 3)
    box = (0, 15, 60, 80)
    expected = F.resized_crop(Image.fromarray(image), *box, [20, 36], InterpolationMode.BILINEAR)
    labels = F.resized_crop(Image.fromarray(label), *box, [20, 36], InterpolationMode.NEAREST)
    np.testing.assert_array_equal(made, np.array(expected))
    np.testing.assert_array_equal(mask, np.array(labels))


def jittered(image: np.ndarray, factors: list[float]) -> np.ndarray:
    """Pixel by pixel, in Python's own numbers."""
    result = np.empty_like(image)
    brightness, contrast, saturation = factors
    for place in np.ndindex(image.shape[:2]):
        pixel = [int(min(255, float(x) * brightness)) for x in image[place]]
        pixel = [int(min(255, max(0, 74 + (x - 74) * contrast))) for x in pixel]
        mean = sum(pixel) / 3
        mixed = [x * saturation + mean * (1 - saturation) for x in pixel]
        result[place] = [int(min(255, max(0, x + 1e-3))) for x in mixed]
    return result


def test_jitter():
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)
    jitter = ChannelMeanJitter()
    for factors in ([1.0, 1.0, 1.0], [0.6, 1.4, 0.7], [1.37, 0.62, 1.31], [1.4, 1.4, 1.4]):
        gap = np.abs(jitter.apply(image, factors).astype(int) - jittered(image, factors))
        assert gap.max() <= 1 and (gap > 0).mean() < 0.01  # single precision at whole numbers
    step = {"type": "ChannelMeanJitter", "brightness": 0.4, "contrast": 0.0, "saturation": 0.0}
    gray = np.full((4, 4, 3), 100, np.uint8)
    values = np.array([Pipeline([step])(gray, gray[..., 0], s)[0][0, 0, 0] for s in range(2000)])
    assert 60 <= values.min() < 62 and 138 < values.max() <= 140
    assert abs(values.mean() - 99.5) < 4 * 23 / np.sqrt(2000)
    assert cv2.countNonZero(Pipeline([step])(gray, gray[..., 0], 0)[1]) == 16
