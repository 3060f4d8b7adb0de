"""Read one image or one label map from disk: .jpg, .jpeg or .png of 8 bits, and nothing else."""

import io
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torchvision.io import ImageReadMode, decode_image

from fedseg.errors import DataError

JPEG, PNG = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"
FORMATS = {".jpg": JPEG, ".jpeg": JPEG, ".png": PNG}  # suffix -> the first bytes of a file
ENDINGS = tuple(FORMATS)
PNG_BITS, PNG_COLOR = 24, 25  # bytes of a PNG's header
GRAY, PALETTE = 0, 3  # values of PNG_COLOR
ORIENTATION = 274  # tag of EXIF; 1: not turned
COPY = "copy or extract the file again"


def read_image(path: str) -> np.ndarray:
    """Read an image as displayed, turned by its EXIF orientation, without alpha.

    Returns: uint8 [H, W, 3], RGB.
    """
    data = torch.frombuffer(bytearray(read_bytes(path)), dtype=torch.uint8)
    try:
        image = decode_image(data, ImageReadMode.RGB, apply_exif_orientation=True)
    except RuntimeError as error:
        raise DataError(f"{path}: cannot be decoded ({_reason(error)}): {COPY}.") from error
    if image.dtype != torch.uint8:
        raise DataError(f"{path}: must have 8 bits a channel, not 16: convert the image.")
    return np.ascontiguousarray(image.permute(1, 2, 0).numpy())


def read_label(path: str) -> np.ndarray:
    """Read a label map as stored: the gray values or palette indices of a PNG, uint8 [H, W]."""
    data = read_bytes(path)
    store = "store class ids as PNG of 8 bits, gray or with a palette"
    if not data.startswith(PNG):
        raise DataError(f"{path}: a label map must end in .png: {store}.")
    try:
        Image.open(io.BytesIO(data)).verify()  # checksums, which decoding leaves out
        label = Image.open(io.BytesIO(data))
        ids = np.array(label)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{path}: cannot be decoded ({_reason(error)}): {COPY}.") from error
    if data[PNG_COLOR] != PALETTE and (data[PNG_COLOR], data[PNG_BITS]) != (GRAY, 8):
        raise DataError(f"{path}: a label map must have one channel of 8 bits: {store}.")
    if label.getexif().get(ORIENTATION, 1) != 1:
        raise DataError(f"{path}: a label map must have no EXIF orientation: remove the tag.")
    return ids


def read_size(path: str) -> tuple[int, int]:
    """Read (height, width) of an image as displayed."""
    with Image.open(path) as image:
        width, height = image.size
        turned = image.getexif().get(ORIENTATION, 1) >= 5
    return (width, height) if turned else (height, width)


def read_bytes(path: str) -> bytes:
    """Read a file whose content is of the format that its suffix says."""
    first = FORMATS.get(Path(path).suffix.lower())
    if first is None:
        raise DataError(
            f"{path}: an image must end in {', '.join(ENDINGS)}: convert it to JPEG or PNG."
        )
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
    if not data:
        raise DataError(f"{path}: the file is empty: {COPY}.")
    if not data.startswith(first):
        raise DataError(f"{path}: its content is of another format than its suffix: convert it.")
    return data


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".")
