"""Style transfer between domains: LAB and CFSI.

Both give an image the style of another domain and keep its content, so the label still holds.
Styles come from a bank: a few training images of each domain, chosen by the bank's seed. An entry
is computed when it is drawn, and the last ``CACHED_ENTRIES`` are kept; it depends on its image
only, so every loader worker and every run has the same bank without sharing anything.

In a federation the clients would send their entries once, before the first round; the history's
traffic leaves that out.

The sample's seed decides whether an image is transferred, and from which image of the bank.
"""

import functools
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Annotated, Any, Literal

import cv2
import numpy as np
from annotated_types import Interval
from pydantic import PositiveInt
from scipy.fft import fft, ifft, irfft, rfft

from fedseg.config.arguments import Float32, Share
from fedseg.datasets.images import read_image
from fedseg.datasets.transforms import SEED_MASK
from fedseg.errors import ConfigError
from fedseg.registry import DATASETS, TRANSFORMS, build
from fedseg.units import floor_share

# Keys of the random streams, apart from the pipeline's (which is 0) under the same seed.
STYLE_STREAM, BANK_STREAM = 1, 2
CACHED_ENTRIES = 2048  # 260 MB for CFSI on images of 1920x1080


class StyleTransfer(ABC):
    """Gives images the style of another domain.

    Args:
        p: probability that an image is transferred.
        images_per_domain: size of the bank (the papers give none); None takes every image.
        seed: chooses the images of the bank.
        exclude: which styles an image never takes: those of its own ``"domain"``, of its own
            ``"condition"`` (IDDA's town and weather, from any viewpoint), or None.
        fixed_half: transfer every second image of a client, the same ones in every epoch, instead
            of drawing by ``p``: FedDrive's released code.
        source: config of a segmentation data set whose images the bank takes, where clients lend
            their styles to another's images (LADD); None: the data set's own.
    """

    def __init__(
        self,
        p: Share = 0.5,
        images_per_domain: PositiveInt | None = 8,
        seed: int = 0,
        exclude: Literal["domain", "condition"] | None = "domain",
        fixed_half: bool = False,
        source: Mapping[str, Any] | None = None,
    ) -> None:
        self.source = source
        self.lender = None
        self.p = p
        self.images_per_domain = images_per_domain
        self.seed = seed
        self.exclude = exclude
        self.fixed_half = fixed_half
        self.bank: dict[str, list[str]] = {}
        self._conditions: dict[str, str] = {}
        self._choices: dict[str | None, list[str]] = {}  # by the group of an image

    def bind(
        self,
        images: Sequence[str],
        domains: Sequence[str],
        condition_of: Callable[[str], str] = str,
    ) -> None:
        """Choose the bank's images from training images, given with their domains."""
        if self.exclude == "condition":
            self._conditions = {domain: condition_of(domain) for domain in set(domains)}
        by_domain: dict[str, list[str]] = defaultdict(list)
        for image, domain in zip(images, domains, strict=True):
            by_domain[domain].append(image)
        # Sorted: the bank must not depend on which client holds an image.
        for number, domain in enumerate(sorted(by_domain)):
            paths = sorted(by_domain[domain])
            order = _generator(self.seed, BANK_STREAM + number).permutation(len(paths))
            self.bank[domain] = [paths[i] for i in order[: self.images_per_domain]]
        self._choices[None] = list(chain.from_iterable(self.bank.values()))
        for group in {self._group(domain) for domain in self.bank} - {None}:
            foreign = [domain for domain in self.bank if self._group(domain) != group]
            self._choices[group] = [path for domain in foreign for path in self.bank[domain]]
            if not self._choices[group]:
                raise ConfigError(
                    f"dataset.style.exclude: every image is of the {self.exclude} {group!r}: none "
                    "is left to take a style from; add other training images"
                )

    def __call__(self, image: np.ndarray, domain: str, seed: int, position: int = 0) -> np.ndarray:
        """The image (uint8 [H, W, 3] RGB), transferred or not as the sample's seed says.

        ``position`` is its place among its client's images.
        """
        rng = _generator(seed, STYLE_STREAM)
        drawn = rng.random() < self.p
        if not (position % 2 == 0 if self.fixed_half else drawn):
            return image
        paths = self._choices.get(self._group(domain), self._choices[None])
        return self.transfer(image, self.entry(paths[rng.integers(len(paths))]), rng)

    def _group(self, domain: str) -> str | None:
        return None if self.exclude is None else self._conditions.get(domain, domain)

    def entry(self, path: str) -> Any:
        """The style of one image of the bank."""
        return _extract(self, path)

    @abstractmethod
    def extract(self, image: np.ndarray) -> Any:
        """The style of an image (uint8 [H, W, 3] RGB), as the bank keeps it."""

    @abstractmethod
    def transfer(self, image: np.ndarray, style: Any, rng: np.random.Generator) -> np.ndarray:
        """The image with a style from the bank: a new array, uint8 [H, W, 3]."""


@TRANSFORMS.register_module()
class LABStyle(StyleTransfer):
    """Moves the mean and standard deviation of L, a, b to another image's (He et al., CVPR 2021).

    An entry is 6 numbers (48 bytes). Lab is OpenCV's 8-bit form, in which the transfer is a lookup
    table of 256 values per channel; values out of range are clipped.

    Args: see :class:`StyleTransfer`.
    """

    def extract(self, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, std = cv2.meanStdDev(cv2.cvtColor(image, cv2.COLOR_RGB2LAB))
        return mean[:, 0], std[:, 0]

    def transfer(
        self, image: np.ndarray, style: tuple[np.ndarray, np.ndarray], rng: np.random.Generator
    ) -> np.ndarray:
        lab = cv2.cvtColor(image, cv2.COLOR_RGB2LAB)
        mean, std = (moment[:, 0] for moment in cv2.meanStdDev(lab))
        to_mean, to_std = style
        # A constant channel has nothing to stretch: it becomes the mean.
        gain = np.divide(to_std, std, out=np.zeros(3), where=std > 0)
        values = (np.arange(256)[:, None] - mean) * gain + to_mean
        table = np.clip(np.rint(values), 0, 255).astype(np.uint8)
        return cv2.cvtColor(cv2.LUT(lab, table[None]), cv2.COLOR_LAB2RGB)


@TRANSFORMS.register_module()
class CFSIStyle(StyleTransfer):
    """Mixes low-frequency amplitudes with another image's (FedDG: Liu et al., CVPR 2021, Eq. 2-3).

    In the centered window of frequencies up to ``window`` times H and W, the amplitude becomes
    (1 - m) own + m other with m ~ U(0, 1); phases stay. Only the window is computed: the change of
    the image is the inverse transform of the window's change. Values are rounded and clipped.

    An entry is the window's non-negative half in float32, 12 (2 floor(window H) + 1)
    (floor(window W) + 1) bytes: 127 kB for 1920x1080, where the whole spectrum is 50 MB. Amplitudes
    are kept per pixel, so images of another size serve too (with the frequencies both have).

    Args:
        window: half height and half width of the window, as a share of H and W.
        clip: round and clip values to 0..255; False: as FedDrive's released code, take absolute
            values, cut decimals off, and let values above 255 begin at 0 again.
        args, kwargs: see :class:`StyleTransfer`.
    """

    def __init__(
        self,
        *args: Any,
        window: Annotated[Float32, Interval(gt=0, lt=0.5)] = 0.05,
        clip: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.window, self.clip = window, clip

    def extract(self, image: np.ndarray) -> np.ndarray:
        """Amplitudes per pixel, float32 [2 h + 1, w + 1, 3]: frequencies -h..h and 0..w."""
        return np.abs(self._spectrum(image))

    def transfer(
        self, image: np.ndarray, style: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        spectrum = self._spectrum(image)
        amplitude = np.abs(spectrum)
        h = min(len(amplitude), len(style)) // 2
        w = min(amplitude.shape[1], style.shape[1])
        spectrum, amplitude, other = (
            array[len(array) // 2 - h : len(array) // 2 + h + 1, :w]
            for array in (spectrum, amplitude, style)
        )
        phase = np.divide(spectrum, amplitude, out=np.ones_like(spectrum), where=amplitude > 0)
        change = np.float32(rng.uniform()) * (other - amplitude) * phase
        height, width = image.shape[:2]
        columns = np.zeros((height, w, 3), np.complex64)
        columns[np.arange(-h, h + 1)] = change * np.float32(height * width)
        change = irfft(ifft(columns, axis=0), width, axis=1)  # all higher frequencies are zero
        if not self.clip:
            return (np.abs(image + change).astype(np.int32) & 255).astype(np.uint8)
        return cv2.add(image, change, dtype=cv2.CV_8U)  # adds, rounds and clips at once

    def _spectrum(self, image: np.ndarray) -> np.ndarray:
        """Fourier coefficients per pixel, complex64; the other half is the complex conjugate."""
        height, width = image.shape[:2]
        h = floor_share(self.window, height)
        w = floor_share(self.window, width)
        # rows first: nearly all columns of that are not needed, and are not transformed further
        half = rfft(image.astype(np.float32), axis=1)[:, : w + 1]
        return fft(half, axis=0)[np.arange(-h, h + 1)] / np.float32(height * width)


def build_style(
    config: Mapping[str, Any] | None,
    images: Sequence[str],
    domains: Sequence[str],
    condition_of: Callable[[str], str] = str,
    lender: type = object,
) -> StyleTransfer | None:
    """The style transfer of a data set's argument ``style``, bound to its images or a lender's."""
    if config is None:
        return None
    style = build(TRANSFORMS, config, "dataset.style", base=StyleTransfer)
    if style.source is not None:
        style.lender = build(DATASETS, style.source, "dataset.style.source", base=lender)
        images, domains = [image for image, _ in style.lender.files], style.lender.domains
        style.exclude = None  # none of them is an image's own
    style.bind(images, domains, condition_of)
    return style


@functools.lru_cache(CACHED_ENTRIES)
def _extract(style: StyleTransfer, path: str) -> Any:
    """Extract the style of an image file."""
    return style.extract(read_image(path))


def _generator(seed: int, stream: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=(seed & SEED_MASK) | stream << 64))
