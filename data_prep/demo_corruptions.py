"""Five simple corruptions of rendered test images, in the layout of CIFAR-C.

They are for ``fedseg demo images``. Names and strengths are CIFAR-C's (Hendrycks and Dietterich,
ICLR 2019), the images are not: results are not comparable with published ones.
"""

from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter

from fedseg.core.seeds import generator_for
from fedseg.datasets.arrays import StoredImages, is_synthetic, save_array
from fedseg.datasets.corrupted import LABELS, SEVERITIES
from fedseg.errors import DataError


def gaussian_noise(images: np.ndarray, std: float) -> np.ndarray:
    """Add normal noise of this standard deviation."""
    return images + std * generator_for(0, "demo noise").standard_normal(images.shape)


def gaussian_blur(images: np.ndarray, sigma: float) -> np.ndarray:
    """Blur by a Gaussian of ``sigma`` pixels."""
    return gaussian_filter(images, (0, sigma, sigma, 0))


def brightness(images: np.ndarray, more: float) -> np.ndarray:
    """Add to every value."""
    return images + more


def contrast(images: np.ndarray, gain: float) -> np.ndarray:
    """Shrink the distance of every value to its channel's mean over the image."""
    mean = images.mean((1, 2), keepdims=True)
    return (images - mean) * gain + mean


def jpeg_compression(images: np.ndarray, quality: int) -> np.ndarray:
    """Compress to JPEG of this quality and decode."""
    return np.stack([_through_jpeg(image, quality) for image in images])


def _through_jpeg(image: np.ndarray, quality: int) -> np.ndarray:
    file = BytesIO()
    Image.fromarray(_to_uint8(image)).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file)) / 255


def _to_uint8(images: np.ndarray) -> np.ndarray:
    return np.rint(images.clip(0, 1) * 255).astype(np.uint8)


# Corruption -> its parameter by severity, 1 to 5. Values of images are 0 to 1.
PARAMETERS = {
    gaussian_noise: (0.04, 0.06, 0.08, 0.09, 0.10),
    brightness: (0.05, 0.1, 0.15, 0.2, 0.3),
    contrast: (0.75, 0.5, 0.4, 0.3, 0.15),
    jpeg_compression: (80, 65, 58, 50, 40),
    gaussian_blur: (0.4, 0.6, 0.7, 0.8, 1.0),
}
CORRUPTIONS = tuple(corruption.__name__ for corruption in PARAMETERS)


def write_corruptions(root: Path, folder: str, count: int) -> None:
    """Write the first ``count`` test images of a folder of rendered images under each corruption.

    DataError if the images are not rendered: real ones have the official files.
    """
    if not is_synthetic(root):
        raise DataError(f"{root}: must have rendered images, not real ones: use CIFAR-C's files")
    test = StoredImages(root, "test")
    images = test.images[:count] / 255
    for corruption, parameters in PARAMETERS.items():
        severities = [_to_uint8(corruption(images, parameter)) for parameter in parameters]
        save_array(root / folder / f"{corruption.__name__}.npy", np.concatenate(severities))
    save_array(root / folder / LABELS, np.tile(test.labels[:count], len(SEVERITIES)))
