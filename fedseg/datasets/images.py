"""Read one image or one label map from disk, and notice a damaged file.

A truncated copy may still decode: some versions of OpenCV fill the missing rows silently. So the
format's end marker is looked for before decoding. A JPEG may have one and still end too early: a
decoder fills it with gray, see :func:`_ends_early`.
"""

import io
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, ImageOps

from fedseg.errors import DataError

PNG = b"\x89PNG\r\n\x1a\n"
NPY = b"\x93NUMPY"
TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
ORIENTATION = 274  # the tag of EXIF and TIFF
WIDTH, LENGTH, BITS, COLORS = 256, 257, 258, 262  # tags of TIFF
SUBFILE = 254  # the tag of TIFF that marks smaller copies
# read by Pillow: OpenCV leaves AVIF unturned and the values of a PGM below 255 unscaled, blackens
# pixels of TIFF that are transparent or damaged, and does not know the others
BY_PILLOW = ("AVIF", "GIF", "PCX", "PPM", "SGI", "SUN", "TGA", "TIFF")
LABELS = ("BMP", "PNG", "PPM", "TIFF")  # of which both decoders give the same ids
LOSSY = ("AVIF", "JPEG", "JPEG2000", "MPO", "WEBP")
PNG_END = b"IEND\xae\x42\x60\x82"
JPEG = b"\xff\xd8"
HEIC = (b"ftypheic", b"ftypheix", b"ftypmif1")  # the brands at byte 4
JPEG_END = b"\xff\xd9"
JPEG_SCAN = 0xDA
JPEG_SEQUENTIAL = (0xC0, 0xC1)  # frames whose pixels come in order, each once
# other pixels in the place of missing ones, whatever the interval of restart markers
MORE_PIXELS = b"".join(bytes(range(1, 128)) + bytes([0xFF, 0xD0 + i % 8]) for i in range(64))
SMALL = 2**14  # bytes of a JPEG whose last block of pixels is a good part of it
GRAY = 128  # of pixels without data
_whole: set[int] = set()  # hashes of JPEGs that this process has checked


def read_image(path: str) -> np.ndarray:
    """An image as displayed, turned by its EXIF orientation: uint8 [H, W, 3], RGB."""
    data = _read(path)
    header = _open(path, data)
    wide = _wide(header, data)
    if header and header.format in BY_PILLOW and not wide:
        return _pixels(path, header, "RGB")
    image = None if wide else _decode(path, data, cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH)
    if header is None and data[:4] in TIFF:  # OpenCV takes the first band for gray
        wide = "multi-band"
    if wide or image.dtype != np.uint8:
        raise DataError(
            f"{path}: has {wide or image.dtype} values, and how they show as 0..255 is not known: "
            "convert it to gray or RGB of 8 bits per channel"
        )
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB)


def read_size(path: str) -> tuple[int, int]:
    """(height, width) of an image as displayed, from its header."""
    with Image.open(path) as image:
        width, height = image.size
        if image.format == "TIFF":  # of which Pillow turns the size, in some versions
            width, height = image.tag_v2[WIDTH], image.tag_v2[LENGTH]
        tagged = image.format != "PNG" or _has_exif(path)  # asking a PNG without it decodes it
        turned = tagged and image.getexif().get(ORIENTATION, 1) in range(5, 9)
        return (width, height) if turned else (height, width)


def read_label(
    path: str, first_channel: bool = False, colors: Sequence[Sequence[int]] = ()
) -> np.ndarray:
    """A label map as stored: uint8 [H, W] raw ids, gray values or indices of a palette.

    Args:
        path: an image without loss, or a NumPy array.
        first_channel: of three channels the first has the ids, as in SYNTHIA.
        colors: [r, g, b] of each raw id, in order: the map is colors instead of ids.
    """
    label = _label_pixels(path, len(colors) > 0)
    if len(colors):
        return _ids_of_colors(path, label, colors)
    if first_channel and label.ndim == 3 and label.shape[2] == 3:
        label = label[..., 0]
    if label.ndim != 2 or not label.size or label.dtype.kind not in "bui":
        raise DataError(
            f"{path}: a label map must have one channel of whole numbers, not {label.dtype} "
            f"{list(label.shape)}: store class ids as 8-bit gray or palette PNG"
            + " without alpha" * (label.shape[2:] in ((2,), (4,)))
            + ", or give the data set's first_channel or label_colors" * (label.shape[2:] == (3,))
        )
    for extreme in (label.min(), label.max()):
        if not 0 <= extreme <= 255:
            fault = f"has the label id {extreme}, but ids are 0 to 255"
            raise DataError(f"{path}: {fault}: renumber the classes and store 8 bits")
    return label.astype(np.uint8, copy=False)


def _label_pixels(path: str, colored: bool) -> np.ndarray:
    """A label map's values in the order R, G, B, A; ``colored``: of a palette its colors."""
    data = _read(path)
    if data.startswith(NPY):
        try:
            return np.load(io.BytesIO(data), allow_pickle=False)
        except Exception as error:  # damaged bytes can fail in any way
            fault = f"is not an array of numbers ({error})"
            raise DataError(f"{path}: {fault}: save it again") from error
    header = _open(path, data)
    kind = header and header.format
    if kind == "TIFF" and header.info.get("compression") in ("jpeg", "webp"):
        kind = header.info["compression"].upper()
    if kind not in LABELS:
        what = kind or "damaged, of an unknown format or of other than 8, 16 or 32 bits"
        what += ", which changes ids unless it is lossless," * (kind in LOSSY)
        what += f" but {', '.join(LABELS)} or .npy"
        raise DataError(f"{path}: a label map must not be {what}: store it as PNG")
    try:
        fault = _find_fault(data, header)
        if kind == "TIFF":
            header.load()  # raises where OpenCV leaves damaged pixels black
    except Exception as error:  # damaged bytes can fail in any way
        fault = f"is damaged ({error}): copy or extract it again"
    if fault:
        raise DataError(f"{path}: {fault}")
    if header.mode in ("P", "LA", "PA"):  # OpenCV would expand it to colors, or leave alpha out
        shown = "RGB" if header.mode == "P" else "RGBA"
        return _pixels(path, header, shown if colored else None)
    label = _decode(path, data, cv2.IMREAD_UNCHANGED)
    if label.ndim == 3 and label.shape[2] in (3, 4):
        code = cv2.COLOR_BGR2RGB if label.shape[2] == 3 else cv2.COLOR_BGRA2RGBA
        return cv2.cvtColor(label, code)
    return label


def _ids_of_colors(path: str, label: np.ndarray, colors: Sequence[Sequence[int]]) -> np.ndarray:
    """The position of every pixel's color in the table."""
    if label.ndim == 2:  # a tool stores gray colors as one channel
        label = np.stack([label] * 3, axis=2)
    if label.shape[2:] == (4,) and (label[..., 3] == 255).all():
        label = label[..., :3]
    if label.shape[2:] != (3,) or label.dtype != np.uint8:
        must = "a label map of colors must be opaque and have 8 bits a channel"
        found = f"{label.dtype} {list(label.shape)}"
        raise DataError(f"{path}: {must}, not {found}: store it as RGB")
    codes = np.array(colors) @ (1 << 16, 1 << 8, 1)
    pixels = label.astype(np.int64) @ (1 << 16, 1 << 8, 1)
    order = np.argsort(codes)
    positions = order[np.searchsorted(codes[order[:-1]], pixels)]
    if (other := codes[positions] != pixels).any():
        unknown = np.unique(label[other], axis=0).tolist()
        listed = f"{str(unknown[:5])[1:-1]}{', ...' * (len(unknown) > 5)}"
        fault = f"has the colors {listed}, which are not in label_colors: add them there"
        raise DataError(f"{path}: {fault}")
    return positions.astype(np.uint8)


def _find_fault(data: bytes, header: Image.Image) -> str:
    """Why tools disagree about the ids of a label map, or where they are; empty if they agree."""
    args = header.tile[0].args if header.tile else header.mode
    raw = args if isinstance(args, str) else str(args[0])
    tags = header.tag_v2 if header.format == "TIFF" else {}
    bits = (5,) if raw in ("BGR;15", "BGR;16") else tags.get(BITS, (8,))  # the former of BMP
    color_space, pages = tags.get(COLORS, 1), _pages(header)
    if header.format == "PPM" and header.tile[0][0] == "ppm_plain" and args[1] in range(255):
        bits = (args[1].bit_length(),)  # OpenCV scales values in digits
    # asking a PNG without the chunk decodes it
    exif = header.getexif() if header.format != "PNG" or b"eXIf" in data else {}
    gray = "store a label map as 8-bit gray or palette PNG"
    if pages > 1:
        return f"has {pages} pages or frames: store one label map in a file"
    if raw.startswith(("1", "L;")):  # few bits, or white is 0
        fault = f"is black and white, gray of less than 8 bits or inverted ({raw}), of which tools "
        return f"{fault}make ids or 0 to 255: {gray}"
    if header.mode != "P" and not {*bits} <= {8, 16, 32}:
        return f"has {max(bits)} bits a value, which tools scale or not: {gray}"
    if color_space not in (1, 2, 3):  # gray, RGB, palette
        fault = f"has the photometric interpretation {color_space} ({header.mode}), whose values "
        return f"{fault}tools convert: {gray}"
    fault = "has an EXIF orientation, which tools apply or ignore: store the label map as its "
    return f"{fault}image is displayed, without the tag" * (exif.get(ORIENTATION, 1) != 1)


def _wide(header: Image.Image | None, data: bytes) -> str | None:
    """The kind of values of other than 8 bits, which a decoder may cut without a word."""
    if header is None:
        return None
    kind, mode = header.format, header.mode
    if mode in ("F", "La") or (mode == "I" and kind == "TIFF"):
        return {"F": "float32", "I": "int32", "La": "premultiplied"}[mode]
    deep = mode.startswith("I") or (kind == "SGI" and data[3] > 1)
    deep |= kind == "TIFF" and max(header.tag_v2.get(BITS, (1,))) > 8
    if kind == "PPM" and isinstance(header.tile[0][3], tuple):
        deep |= header.tile[0][3][1] > 255  # its largest value
    return "uint16" if deep else None


def _has_exif(path: str) -> bool:
    """True if a PNG has a chunk of EXIF, before its pixels or after them."""
    with open(path, "rb") as file:
        file.seek(len(PNG))
        while len(head := file.read(8)) == 8 and head[4:] != b"eXIf":
            file.seek(int.from_bytes(head[:4], "big") + 4, os.SEEK_CUR)
    return head[4:] == b"eXIf"


def _pages(image: Image.Image) -> int:
    """The number of images in a file, without the smaller copies that a TIFF may hold."""
    pages = range(getattr(image, "n_frames", 1))
    if image.format != "TIFF" or len(pages) == 1:
        return len(pages)
    whole = [image.seek(page) or not image.tag_v2.get(SUBFILE, 0) & 1 for page in pages]
    image.seek(0)
    return sum(whole)


def is_hidden(path: str) -> bool:
    """True if a part of a path is a file of the system or an editor: macOS, Synology."""
    return any(part[:1] == "." or part in ("__MACOSX", "@eaDir") for part in path.split("/"))


def walk_files(root: str | Path) -> Iterator[str]:
    """Paths below a root of the files there, hidden ones too, in torchvision's order."""
    folders_with_names = []
    passed = {os.fspath(root): [Path(os.path.realpath(root))]}  # the real folders above one
    for place, folders, names in os.walk(root, followlinks=True):
        folders_with_names.append((place, names))
        above = passed.pop(place)
        for name in [*folders]:
            path = os.path.join(place, name)
            real = Path(os.path.realpath(path))
            if any(one.is_relative_to(real) for one in above):  # a circle
                folders.remove(name)
            else:
                passed[path] = [*above, real]
    for place, names in sorted(folders_with_names):
        below = f"{Path(place).relative_to(root).as_posix()}/".removeprefix("./")
        yield from (below + name for name in sorted(names))


def check_exist(paths: Sequence[str], root: str | Path, fix: str) -> None:
    """Raise DataError with the first of the missing files; ``root`` names the data set."""
    if missing := sorted(set(paths) - existing_files(paths)):
        raise DataError(
            f"{root}: {len(missing)} of {len(paths)} files are missing ({', '.join(missing[:5])}"
            f"{', ...' * (len(missing) > 5)}): {fix}"
        )


def existing_files(paths: Iterable[str]) -> set[str]:
    """Those of the paths that exist, behind links too; DataError for what is no regular file."""
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
        for entry in present:
            # of a link in a circle, the entry itself raises
            if not (os.path.isfile(entry.path) if entry.is_symlink() else entry.is_file()):
                raise DataError(f"{entry.path}: is not a regular file: put the image there")
        existing.update(os.path.join(folder, entry.name) for entry in present)
    return existing


def _read(path: str) -> bytes:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    if not data:
        raise DataError(f"{path}: the file is empty: copy or extract it again")
    cut = data.startswith(PNG) and (len(data) < 33 or data.rfind(PNG_END) < 0)
    if data.startswith(JPEG):
        _, scan = _jpeg_parts(data)
        cut = scan is None or data.rfind(JPEG_END, scan) < 0
    if cut:
        fault = f"the file is truncated ({len(data)} bytes, no end marker)"
        raise DataError(f"{path}: {fault}: copy or extract it again")
    return data


def _open(path: str, data: bytes) -> Image.Image | None:
    """The header by Pillow, or None if only OpenCV may know the format."""
    try:
        return Image.open(io.BytesIO(data))
    except Image.DecompressionBombError as error:
        raise DataError(f"{path}: is too large an image ({error})") from error
    except Exception:  # OpenCV knows more formats
        return None


def _pixels(path: str, image: Image.Image, mode: str | None = None) -> np.ndarray:
    """As stored, or as displayed in a mode of Pillow."""
    try:
        return np.array(ImageOps.exif_transpose(image).convert(mode) if mode else image)
    except Exception as error:  # damaged bytes can fail in any way
        fault = f"cannot be decoded as an image ({error})"
        fix = "copy or extract the file again, or convert it to PNG"
        raise DataError(f"{path}: {fault}: {fix}") from error


def _decode(path: str, data: bytes, flags: int) -> np.ndarray:
    try:  # of a PAM it gives blue as red, and values that are not scaled
        pam = data.startswith(b"P7")
        image = None if pam else cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except cv2.error:
        image = None
    if image is None:
        fix = "copy or extract the file again, or convert it to PNG"
        fix = "convert it from HEIC to JPEG or PNG" if data[4:12] in HEIC else fix
        raise DataError(f"{path}: cannot be decoded as an image: {fix}")
    if data.startswith(JPEG) and _ends_early(data, image):
        raise DataError(f"{path}: the file is truncated, pixels are missing: extract it again")
    return image


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
    corners = image[[0, 0, -1, -1], [0, -1, 0, -1]]  # the last pixel may be turned to any
    if sequential and len(data) > SMALL and (corners != GRAY).any(axis=1).all():
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
