"""Read one image or one label map from disk, and notice a damaged file.

A truncated copy may still decode: some versions of OpenCV fill the missing rows silently. So the
format's end marker is looked for before decoding.
"""

import io
import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from fedseg.errors import DataError
from fedseg.files import read_bytes

PNG = b"\x89PNG\r\n\x1a\n"
PNG_END = b"IEND\xae\x42\x60\x82"
JPEG = b"\xff\xd8"
JPEG_END = b"\xff\xd9"
JPEG_SCAN = 0xDA


def read_image(path: str) -> np.ndarray:
    """An image as uint8 [H, W, 3], RGB.

    Raises:
        DataError: the file is missing, truncated or not an image.
    """
    # The orientation tag is ignored because label maps have none: both are read as stored.
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    return cv2.cvtColor(_decode(path, _read(path), flags), cv2.COLOR_BGR2RGB)


def read_label(path: str) -> np.ndarray:
    """A label map as stored: uint8 [H, W] raw ids.

    Raises:
        DataError: the file is missing, truncated, JPEG, or not 8-bit and single-channel.
    """
    data = _read(path)
    if data.startswith(JPEG):
        raise DataError(f"{path}: a label map cannot be JPEG, which changes ids: store it as PNG")
    label = _decode(path, data, cv2.IMREAD_UNCHANGED)
    found = f"{label.dtype} {list(label.shape)}"
    sound = label.ndim == 2 and label.dtype == np.uint8
    if data.startswith(PNG):
        # Bit depth and color type sit at fixed offsets of the first chunk. OpenCV would expand a
        # palette to colors, and scale up an image of fewer bits.
        bits, color = data[24:26]
        kinds = {0: "gray", 2: "color", 3: "palette", 4: "gray + alpha", 6: "color + alpha"}
        sound, found = (bits, color) == (8, 0), f"{bits}-bit {kinds.get(color, 'unknown')}"
    if not sound:
        raise DataError(
            f"{path}: a label map must be 8-bit and single-channel, not {found}: store class ids, "
            "not colors"
        )
    return label


def existing_files(paths: Iterable[str], root: str | Path) -> set[str]:
    """Those of the paths that exist.

    Raises:
        DataError: one is no regular file, or leaves ``root`` through a symbolic link.
    """
    # One listing per folder: asking the file system about each file is slow on network disks.
    folders: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        folders[os.path.dirname(path)].add(os.path.basename(path))
    found: set[str] = set()
    for folder, wanted in folders.items():
        try:
            with os.scandir(folder) as entries:
                present = [entry for entry in entries if entry.name in wanted]
        except OSError:
            continue
        linked = [folder] * bool(present) + [entry.path for entry in present if entry.is_symlink()]
        for path in linked:
            if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)):
                raise DataError(
                    f"{path}: leaves {root} through a symbolic link: put the file itself there"
                )
        for entry in present:
            if not entry.is_file():
                raise DataError(f"{entry.path}: is no regular file: put the image there")
        found.update(os.path.join(folder, entry.name) for entry in present)
    return found


def _read(path: str) -> bytes:
    try:
        data = read_bytes(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    if not data:
        raise DataError(f"{path}: the file is empty: copy or extract it again")
    if _is_cut(data):
        raise DataError(
            f"{path}: the file is truncated ({len(data)} bytes, no end marker): "
            "copy or extract it again"
        )
    return data


def _decode(path: str, data: bytes, flags: int) -> np.ndarray:
    try:
        with Image.open(io.BytesIO(data)) as header:
            _ = header.size
    except Image.DecompressionBombError as error:
        raise DataError(f"{path}: is too large an image ({error})") from error
    except Exception:  # OpenCV knows more formats
        pass
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except cv2.error:
        image = None
    if image is None:
        raise DataError(f"{path}: cannot be decoded as an image: copy or extract the file again")
    return image


def _is_cut(data: bytes) -> bool:
    """Whether a PNG or JPEG lacks its end marker (any other format: False)."""
    if data.startswith(PNG):
        return len(data) < 33 or data.rfind(PNG_END) < 0
    if data.startswith(JPEG):
        scan = _jpeg_scan(data)
        return scan is None or data.rfind(JPEG_END, scan) < 0
    return False


def _jpeg_scan(data: bytes) -> int | None:
    """Where the compressed pixels begin, or None if they never do.

    The segments before are skipped: a thumbnail in one of them has an end marker of its own.
    """
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        if data[at + 1] == 0xFF:  # a fill byte
            at += 1
            continue
        if data[at + 1] == JPEG_SCAN:
            return at
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None
