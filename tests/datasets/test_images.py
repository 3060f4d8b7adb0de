"""Reading of single files, whole and damaged."""

import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

from fedseg.datasets.images import read_image, read_label, read_size
from fedseg.errors import DataError

RAMP = np.add.outer(np.arange(60), np.arange(80)).astype(np.uint8)
COLORS = cv2.merge([RAMP, RAMP // 2, 255 - RAMP])
JPEGS = [{}, {"progressive": True}, {"restart_marker_blocks": 3}, {"subsampling": 0}]


@pytest.mark.parametrize("options", JPEGS)
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_jpeg_is_read_as_pillow_reads_it(tmp_path: Path, mode: str, options: dict) -> None:
    path = str(tmp_path / "a.JPG")
    Image.fromarray(COLORS).convert(mode).save(path, "JPEG", **options)
    image = read_image(path)
    assert image.dtype == np.uint8 and image.flags["C_CONTIGUOUS"]
    assert (image == np.array(Image.open(path).convert("RGB"))).all()


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "1"])
def test_png_is_read_as_rgb_without_alpha(tmp_path: Path, mode: str) -> None:
    image = Image.fromarray(COLORS).convert(mode)
    if mode in ("RGBA", "LA"):
        image.putalpha(Image.fromarray(RAMP // 2))
    image.save(tmp_path / "a.png")
    assert (read_image(str(tmp_path / "a.png")) == np.array(image.convert("RGB"))).all()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("ending", ["jpg", "png"])
def test_image_is_turned_as_displayed(tmp_path: Path, ending: str, orientation: int) -> None:
    path, exif = tmp_path / f"a.{ending}", Image.Exif()
    exif[274] = orientation
    Image.fromarray(COLORS).save(path, exif=exif)
    with Image.open(path) as image:
        displayed = np.array(ImageOps.exif_transpose(image).convert("RGB"))
    assert (read_image(str(path)) == displayed).all()
    assert read_size(str(path)) == displayed.shape[:2]
    if ending == "png" and orientation > 1:
        Image.fromarray(RAMP).save(path, exif=exif)
        with pytest.raises(DataError, match=r"a\.png: .* no EXIF orientation"):
            read_label(str(path))


@pytest.mark.parametrize("classes", [2, 3, 12, 140])  # a palette of 1, 2, 4 and 8 bits
def test_label_with_a_palette_has_its_indices(tmp_path: Path, classes: int) -> None:
    label = Image.fromarray(RAMP % classes, "P")
    label.putpalette(np.random.default_rng(0).integers(0, 256, 3 * classes).tolist())
    label.save(tmp_path / "a.png")
    assert (read_label(str(tmp_path / "a.png")) == RAMP % classes).all()
    Image.fromarray(RAMP % classes).save(tmp_path / "a.png")
    assert (read_label(str(tmp_path / "a.png")) == RAMP % classes).all()


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "LA", "1", "I;16"])
def test_label_must_be_ids_of_8_bits(tmp_path: Path, mode: str) -> None:
    label = Image.fromarray(RAMP.astype(np.uint16) if mode == "I;16" else RAMP)
    label.convert(mode).save(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"a\.png: .* one channel of 8 bits: store class ids"):
        read_label(str(tmp_path / "a.png"))


def test_gray_of_4_bits_is_no_label(tmp_path: Path) -> None:
    """Tools read its values as 0 to 15, or stretched to 0 to 255."""
    rows = b"".join(b"\0" + bytes([0x12, 0x3F]) for _ in range(4))
    chunks = [(b"IHDR", bytes([0, 0, 0, 4, 0, 0, 0, 4, 4, 0, 0, 0, 0]))]
    chunks += [(b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    data = b"\x89PNG\r\n\x1a\n"
    for name, content in chunks:
        checksum = zlib.crc32(name + content).to_bytes(4, "big")
        data += len(content).to_bytes(4, "big") + name + content + checksum
    (tmp_path / "a.png").write_bytes(data)
    with pytest.raises(DataError, match=r"a\.png: .* one channel of 8 bits"):
        read_label(str(tmp_path / "a.png"))


def test_image_of_16_bits_is_refused(tmp_path: Path) -> None:
    for shape in ((60, 80), (60, 80, 3)):
        cv2.imwrite(str(tmp_path / "a.png"), np.full(shape, 999, np.uint16))
        with pytest.raises(DataError, match=r"a\.png: must have 8 bits a channel, not 16"):
            read_image(str(tmp_path / "a.png"))


@pytest.mark.parametrize("name", ["a.jpg", "progressive.jpg", "a.png", "label.png"])
def test_a_cut_file_is_never_half_an_image(tmp_path: Path, name: str) -> None:
    path, read = tmp_path / name, read_label if name == "label.png" else read_image
    noise = np.random.default_rng(0).integers(0, 256, COLORS.shape, np.uint8)
    noise[-20:] = 128  # the color of a JPEG's pixels without data
    stored = Image.fromarray(noise[..., 0] if name == "label.png" else noise)
    options = {"progressive": True} if name == "progressive.jpg" else {}
    stored.save(path, **options)
    data, whole = path.read_bytes(), read(str(path))
    assert whole.shape[:2] == noise.shape[:2]
    path.write_bytes(data + b"trailer")
    assert (read(str(path)) == whole).all()
    end = len(data) - (12 if path.suffix == ".png" else 1)  # a PNG has its pixels without IEND
    for length in {*range(1, end, end // 40), *range(end - 40, end)}:
        path.write_bytes(data[:length])
        with pytest.raises(DataError, match=rf"{name}: .* copy or extract|{name}: .* convert"):
            read(str(path))


@pytest.mark.parametrize("read", [read_image, read_label])
def test_a_damaged_png_is_refused(tmp_path: Path, read) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(RAMP).save(path)
    data = path.read_bytes()
    for place in range(8, len(data) - 12, 7):
        path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        with pytest.raises(DataError, match=r"a\.png: "):
            read(str(path))


@pytest.mark.parametrize("read", [read_image, read_label])
def test_other_files_are_refused(tmp_path: Path, read) -> None:
    for kind in ("tif", "bmp", "webp", "gif", "npy"):
        with pytest.raises(DataError, match=rf"a\.{kind}: .* must end in \.jpg, \.jpeg, \.png"):
            read(str(tmp_path / f"a.{kind}"))
    Image.fromarray(RAMP).save(tmp_path / "photo", "JPEG")
    Image.fromarray(RAMP).save(tmp_path / "picture", "WEBP", lossless=True)
    for content, fault in (
        (b"", "the file is empty"),
        (b"no image at all", "of another format"),
        ((tmp_path / "photo").read_bytes(), "of another format"),
        ((tmp_path / "picture").read_bytes(), "of another format"),
    ):
        (tmp_path / "a.png").write_bytes(content)
        with pytest.raises(DataError, match=rf"a\.png: .*{fault}"):
            read(str(tmp_path / "a.png"))
    with pytest.raises(DataError, match=r"b\.png: cannot be read \(No such file"):
        read(str(tmp_path / "b.png"))


def test_label_in_jpeg_is_refused(tmp_path: Path) -> None:
    Image.fromarray(RAMP).save(tmp_path / "a.jpg")
    with pytest.raises(DataError, match=r"a\.jpg: a label map must end in \.png"):
        read_label(str(tmp_path / "a.jpg"))


@pytest.mark.parametrize("read", [read_image, read_label])
def test_a_picture_that_claims_gigabytes_is_refused(tmp_path: Path, read) -> None:
    sound = cv2.imencode(".png", RAMP)[1].tobytes()
    head = sound[12:16] + (60_000).to_bytes(4, "big") * 2 + sound[24:29]
    path = tmp_path / "bomb.png"
    path.write_bytes(sound[:12] + head + zlib.crc32(head).to_bytes(4, "big") + sound[33:])
    with pytest.raises(DataError, match=r"bomb\.png: cannot be decoded"):
        read(str(path))
