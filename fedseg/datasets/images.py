"""Read one image or one label map from disk, and notice a damaged file.

A truncated copy may still decode: some versions of OpenCV fill the missing rows silently. So the
format's end marker is looked for before decoding. A JPEG may have one and still end too early: a
decoder fills it with gray, see :func:`_ends_early`.
"""

import io
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from fedseg.errors import DataError
from fedseg.files import read_bytes

PNG = b"\x89PNG\r\n\x1a\n"
GRAY_8_BIT = (8, 0)  # bit depth and color type of a PNG
PNG_END = b"IEND\xae\x42\x60\x82"
JPEG = b"\xff\xd8"
# JPEG, JPEG 2000 (two kinds of files), AVIF, WebP: known by content, as decoders do
LOSSY = re.compile(
    rb"\xff\xd8|\x00\x00\x00\x0cjP|\xff\x4f\xff\x51|.{4}ftyp|RIFF.{4}WEBP", re.DOTALL
)
JPEG_END = b"\xff\xd9"
JPEG_SCAN = 0xDA
JPEG_SEQUENTIAL = (0xC0, 0xC1)  # frames whose pixels come in order, each once
# other pixels in the place of missing ones, whatever the interval of restart markers
MORE_PIXELS = b"".join(bytes(range(1, 128)) + bytes([0xFF, 0xD0 + i % 8]) for i in range(64))
SMALL = 2**14  # bytes of a JPEG whose last block of pixels is a good part of it
GRAY = 128  # of pixels without data
_whole: set[int] = set()  # hashes of JPEGs that this process has checked


def read_image(path: str) -> np.ndarray:
    """An image as uint8 [H, W, 3], RGB."""
    # The orientation tag is ignored because label maps have none: both are read as stored.
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    return cv2.cvtColor(_decode(path, _read(path), flags), cv2.COLOR_BGR2RGB)


def read_label(path: str) -> np.ndarray:
    """A label map as stored: uint8 [H, W] raw ids; it must be lossless."""
    data = _read(path)
    if LOSSY.match(data):
        raise DataError(
            f"{path}: a label map cannot be JPEG or the like, which may change ids: store it as PNG"
        )
    label = _decode(path, data, cv2.IMREAD_UNCHANGED)
    # Bit depth and color type of a PNG sit at fixed offsets. OpenCV would expand a palette to
    # colors, and scale up an image of fewer bits.
    form = tuple(data[24:26]) if data.startswith(PNG) else GRAY_8_BIT
    if label.ndim != 2 or label.dtype != np.uint8 or form != GRAY_8_BIT:
        raise DataError(
            f"{path}: a label map must be 8-bit and single-channel, not {label.dtype} "
            f"{list(label.shape)} (PNG's bit depth and color type: {form}): store class ids, not "
            "colors"
        )
    return label


def check_exist(paths: Sequence[str], root: str | Path, fix: str) -> None:
    """Raise DataError with the first of the missing files; see :func:`existing_files`."""
    if missing := sorted(set(paths) - existing_files(paths, root)):
        raise DataError(
            f"{root}: {len(missing)} of {len(paths)} files are missing ({', '.join(missing[:5])}"
            f"{', ...' * (len(missing) > 5)}): {fix}"
        )


def existing_files(paths: Iterable[str], root: str | Path) -> set[str]:
    """Those of the paths that exist; regular files that do not leave ``root`` through a link."""
    # One listing per folder: asking the file system about each file is slow on network disks.
    folders: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        folders[os.path.dirname(path)].add(os.path.basename(path))
    existing: set[str] = set()
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
                    f"{path}: leaves {root} through a symbolic link: put the file itself there, or "
                    f"make {root} itself the link"
                )
        for entry in present:
            # of a link in a circle, the entry itself raises
            if not (os.path.isfile(entry.path) if entry.is_symlink() else entry.is_file()):
                raise DataError(f"{entry.path}: is no regular file: put the image there")
        existing.update(os.path.join(folder, entry.name) for entry in present)
    return existing


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
        Image.open(io.BytesIO(data)).close()
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
    if data.startswith(JPEG) and _ends_early(data, image):
        raise DataError(f"{path}: the file is truncated, pixels are missing: extract it again")
    return image


def _is_cut(data: bytes) -> bool:
    if data.startswith(PNG):
        return len(data) < 33 or data.rfind(PNG_END) < 0
    if data.startswith(JPEG):
        _, scan = _jpeg_parts(data)
        return scan is None or data.rfind(JPEG_END, scan) < 0
    return False


def _jpeg_parts(data: bytes) -> tuple[int, int | None]:
    """The kind of frame, and where the compressed pixels begin, or None if they never do.

    The segments before are skipped: a thumbnail in one of them has an end marker of its own.
    """
    at, frame = 2, 0
    while at + 4 <= len(data) and data[at] == 0xFF:
        kind = data[at + 1]
        if kind == 0xFF:  # a fill byte
            at += 1
            continue
        if kind == JPEG_SCAN:
            return frame, at
        if kind >> 4 == 0xC and kind not in (0xC4, 0xC8, 0xCC):
            frame = kind
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return frame, None


def _ends_early(data: bytes, image: np.ndarray) -> bool:
    """True for a JPEG whose pixels end before its end marker; decoders only print a warning.

    Data after the last pixel change nothing in a whole JPEG. Two more decodings find out, only
    where the last pixel is gray, in small files and progressive ones, and once for each.
    """
    sequential = _jpeg_parts(data)[0] in JPEG_SEQUENTIAL
    if sequential and len(data) > SMALL and (image[-1, -1] != GRAY).any():
        return False
    if hash(data) in _whole:
        return False
    end = data.rfind(JPEG_END)
    longer = data[:end].rstrip(b"\xff") + MORE_PIXELS + data[end:]
    try:  # Pillow does not print the decoder's warnings, as OpenCV does
        before, after = (Image.open(io.BytesIO(one)).tobytes() for one in (data, longer))
    except OSError:
        return True
    if before == after:
        _whole.add(hash(data))
    return before != after
