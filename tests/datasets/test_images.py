"""Reading of single files, whole and damaged."""

import os
import struct
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

from fedseg.datasets.images import existing_files, read_image, read_label, read_size, walk_files
from fedseg.errors import DataError

RAMP = np.add.outer(np.arange(60), np.arange(80)).astype(np.uint8)


@pytest.fixture(params=["jpg", "png"])
def file(request, tmp_path: Path) -> Path:
    path = tmp_path / f"image.{request.param}"
    cv2.imwrite(str(path), cv2.merge([RAMP, RAMP // 2, 255 - RAMP]))
    return path


def test_truncated_file_is_named_and_bytes_after_the_end_do_no_harm(file: Path) -> None:
    data, before = file.read_bytes(), read_image(str(file))
    file.write_bytes(data + b"trailer")
    assert (read_image(str(file)) == before).all()
    lengths = [len(data) - cut for cut in (1, 2, 5, 20)]
    lengths += [int(len(data) * share) for share in (0.7, 0.3, 0.05)]
    half = len(data) // 2
    for cut in (*(data[:keep] for keep in lengths), data[:half] + bytes(len(data) - half)):
        file.write_bytes(cut)
        with pytest.raises(DataError, match=rf"{file.name}: .*truncated"):
            read_image(str(file))


@pytest.mark.parametrize("size", [(36, 64), (240, 320)])
@pytest.mark.parametrize(
    "options",
    [(), (cv2.IMWRITE_JPEG_PROGRESSIVE, 1), (cv2.IMWRITE_JPEG_RST_INTERVAL, 3)],
    ids=["sequential", "progressive", "restarts"],
)
def test_jpeg_that_ends_early_with_an_end_marker(tmp_path: Path, size, options) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    noise[-20:, -20:] = 128  # the color of pixels without data
    sound = cv2.imencode(".jpg", noise, options)[1].tobytes()
    path = tmp_path / "a.jpg"
    path.write_bytes(sound)
    assert (read_image(str(path)) == cv2.imread(str(path))[..., ::-1]).all()
    for percent in range(30, 96, 5):
        path = tmp_path / f"{percent}.jpg"
        path.write_bytes(sound[: len(sound) * percent // 100] + b"\xff\xd9")
        with pytest.raises(DataError, match=rf"{path.name}: "):
            read_image(str(path))


def test_end_marker_of_a_thumbnail_does_not_count(tmp_path: Path) -> None:
    plain = cv2.imencode(".jpg", RAMP)[1].tobytes()
    thumbnail = b"\xff\xe1" + (len(plain) + 2).to_bytes(2, "big") + plain
    path = tmp_path / "a.jpg"
    path.write_bytes(plain[:2] + thumbnail + plain[2:])
    assert read_image(str(path)).shape == (60, 80, 3)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match="truncated"):
        read_image(str(path))


def test_damaged_missing_and_empty_files(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    with pytest.raises(DataError, match=r"a\.png"):
        read_image(str(path))
    for content, told in ((b"", "empty"), (b"no image at all", "decoded.* or convert it to PNG")):
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"a\.png: .*{told}"):
            read_image(str(path))
    with pytest.raises(DataError, match=r"a\.png: .* must .* but BMP, PNG, PPM, TIFF or \.npy"):
        read_label(str(path))


@pytest.mark.parametrize(
    ("mode", "ending"),
    [(mode, "png") for mode in ("RGB", "LA", "1")]
    + [("1", "tif"), ("1", "bmp"), ("1", "pbm"), ("LA", "tif"), ("P", "bmp")],
)
def test_label_must_be_ids(tmp_path: Path, mode: str, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    image = Image.fromarray(RAMP).convert(mode)
    if mode == "P":
        image.putpalette([0, 0, 0, 255, 255, 255])
    image.save(path)
    told = rf"a\.{ending}: .*(one channel|less than 8 bits).*8-bit"
    with pytest.raises(DataError, match=told + ".*without alpha$" * (mode == "LA")):
        read_label(str(path), first_channel=mode == "LA")


@pytest.mark.parametrize("ending", ["png", "tif", "bmp"])
@pytest.mark.parametrize("classes", [2, 3, 12, 140])  # a PNG has 1, 2, 4 and 8 bits
def test_label_with_a_palette_has_its_indices(tmp_path: Path, ending: str, classes: int) -> None:
    label = Image.fromarray(RAMP % classes).convert("P")
    label.putpalette(np.random.default_rng(0).integers(0, 256, 3 * classes).tolist())
    label.putdata((RAMP % classes).ravel().tolist())
    label.save(tmp_path / f"a.{ending}")
    assert (read_label(str(tmp_path / f"a.{ending}")) == RAMP % classes).all()


@pytest.mark.parametrize("ending", ["png", "tif", "pgm"])
def test_sixteen_bits(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    Image.fromarray(RAMP.astype(np.uint16)).save(path)
    assert (read_label(str(path)) == RAMP).all()
    Image.fromarray(RAMP.astype(np.uint16) * 29).save(path)  # 12 bits
    with pytest.raises(DataError, match=rf"a\.{ending}: has the label id 4002, .*0 to 255"):
        read_label(str(path))
    with pytest.raises(DataError, match=rf"a\.{ending}: has uint16 values.*8 bits"):
        read_image(str(path))


WIDE_COLORS = np.stack([RAMP.astype(">u2") * 29] * 3, 2)  # 12 bits
PAM = b"P7\nWIDTH 80\nHEIGHT 60\nDEPTH 3\nMAXVAL 15\nTUPLTYPE RGB\nENDHDR\n"
PAM_8 = PAM.replace(b"VAL 15", b"VAL 255")
SGI = struct.pack(">hbb4hii492x", 474, 0, 2, 3, 80, 60, 3, 0, 4095)


@pytest.mark.parametrize(
    ("ending", "content"),
    [
        ("ppm", b"P6 80 60 65535\n" + WIDE_COLORS.tobytes()),
        ("ppm", b"P3 80 60 65535\n" + " ".join(map(str, WIDE_COLORS.ravel())).encode()),
        ("sgi", SGI + WIDE_COLORS.tobytes()),
        ("pam", PAM.replace(b"VAL 15", b"VAL 65535") + WIDE_COLORS.tobytes()),
        ("pam", PAM + RAMP.repeat(3).tobytes()),
        ("pam", PAM_8 + RAMP.repeat(3).tobytes()),  # OpenCV gives blue as red
    ],
    ids=["P6", "P3", "SGI", "P7", "P7 of 4 bits", "P7 of 8 bits"],
)
def test_other_bits_of_colors(tmp_path: Path, ending: str, content: bytes) -> None:
    (tmp_path / f"a.{ending}").write_bytes(content)
    told = "cannot be decoded.* convert it to PNG" if ending == "pam" else "has uint16 .*8 bits"
    with pytest.raises(DataError, match=rf"a\.{ending}: {told}"):
        read_image(str(tmp_path / f"a.{ending}"))


def tiff_of(bits: int, photometric: int, samples: int, pixels: bytes) -> bytes:
    """A file of one strip, 80x60, in any number of bits."""
    tags = {256: 80, 257: 60, 258: bits, 259: 1, 262: photometric, 273: 0, 277: samples, 278: 60}
    tags |= {279: len(pixels)}
    if samples == 2:  # gray that is multiplied by its alpha
        tags |= {258: bits | bits << 16, 338: 1}
    if samples == 3:
        tags[258] = 8 + 2 + 12 * len(tags) + 4
    tags[273] = 8 + 2 + 12 * len(tags) + 4 + 6
    lines = [
        struct.pack("<HHII", tag, 3 if tag == 258 else 4, samples if tag == 258 else 1, value)
        for tag, value in tags.items()
    ]
    head = struct.pack("<2sHIH", b"II", 42, 8, len(tags)) + b"".join(lines) + bytes(4)
    return head + struct.pack("<3H", *[bits] * 3) + pixels


@pytest.mark.parametrize(
    ("bits", "photometric", "samples", "reason"),
    [
        (12, 1, 1, "has 12 bits a value"),
        (10, 1, 1, "must not be damaged.* or of other than 8"),
        (14, 1, 1, "must not be damaged.* or of other than 8"),
        (16, 0, 1, "has the photometric interpretation 0"),
        (8, 6, 3, r"has the photometric interpretation 6 \(YCbCr\)"),
        (8, 8, 3, r"has the photometric interpretation 8 \(LAB\)"),
    ],
)
def test_label_of_tiff_whose_values_tools_change(tmp_path, bits, photometric, samples, reason):
    pixels = RAMP.astype("<u2" if bits > 8 else "u1").repeat(samples).tobytes()
    (tmp_path / "a.tif").write_bytes(tiff_of(bits, photometric, samples, pixels))
    with pytest.raises(DataError, match=rf"a\.tif: .*{reason}"):
        read_label(str(tmp_path / "a.tif"), first_channel=True)
    head = struct.pack("<2sIIIIiiHHII", b"BM", 54, 0, 54, 40, 80, 60, 1, 16, 0, 0)  # 5 bits each
    (tmp_path / "a.bmp").write_bytes(head + bytes(16 + 2 * 80 * 60))
    with pytest.raises(DataError, match=r"a\.bmp: has 5 bits a value"):
        read_label(str(tmp_path / "a.bmp"), first_channel=True)
    for bands, fault in ((2, "premultiplied"), (3, "multi-band")):  # the latter of QGIS
        (tmp_path / "a.tif").write_bytes(tiff_of(8, 1, bands, RAMP.repeat(bands).tobytes()))
        with pytest.raises(DataError, match=rf"a\.tif: has {fault} values, .* RGB of 8 bits"):
            read_image(str(tmp_path / "a.tif"))
    (tmp_path / "a.tif").write_bytes(tiff_of(8, 1, 1, RAMP.tobytes()))
    assert (read_label(str(tmp_path / "a.tif")) == RAMP).all()


@pytest.mark.parametrize("ending", ["png", "tif", "webp"])
@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_alpha_of_images_is_dropped(tmp_path: Path, ending: str, mode: str) -> None:
    image = Image.fromarray(RAMP).convert("RGB" if ending == "webp" else mode)
    image.putalpha(Image.fromarray(RAMP // 2))
    image.save(tmp_path / f"a.{ending}", lossless=True, exact=True)  # of WebP
    assert (read_image(str(tmp_path / f"a.{ending}")) == RAMP[..., None]).all()


@pytest.mark.parametrize("kind", ["png", "ras", "pcx", "tga", "sgi"])
def test_images_are_rgb_also_of_formats_that_opencv_does_not_know(tmp_path: Path, kind) -> None:
    path, image = str(tmp_path / f"a.{kind}"), cv2.merge([RAMP, RAMP // 2, 255 - RAMP])
    if kind == "ras":  # OpenCV reads its gray as black
        image = cv2.merge([RAMP] * 3)
        cv2.imwrite(path, RAMP)
    else:
        Image.fromarray(image).save(path)
    assert (read_image(path) == image).all() and read_image(path).dtype == np.uint8
    if kind == "png":
        return
    with pytest.raises(DataError, match=rf"a\.{kind}: .* must .* but BMP, PNG, PPM, TIFF or \.npy"):
        read_label(path)


@pytest.mark.parametrize("kind", ["float32", "int32"])
def test_wide_values_are_named(tmp_path: Path, capfd, kind: str) -> None:
    for ending in ("tif", "pfm")[: 2 if kind == "float32" else 1]:
        path = str(tmp_path / f"a.{ending}")
        Image.fromarray(RAMP.astype(kind)).save(path)
        with pytest.raises(DataError, match=rf"a\.{ending}: has {kind} values.*8 bits"):
            read_image(path)
    assert capfd.readouterr().err == ""  # OpenCV's own messages


@pytest.mark.parametrize("ending", ["tif", "png"])
def test_label_of_several_pages(tmp_path: Path, ending: str) -> None:
    path, label = tmp_path / f"a.{ending}", Image.fromarray(RAMP)
    label.save(path, save_all=True, append_images=[Image.fromarray(RAMP + 1)])
    with pytest.raises(DataError, match=rf"a\.{ending}: has 2 pages or frames: store one"):
        read_label(str(path))
    if ending == "tif":  # an overview, as GDAL adds it, is no other label map
        small = Image.fromarray(RAMP[::2, ::2])
        small.encoderinfo = {"tiffinfo": {254: 1}}
        label.save(path, save_all=True, append_images=[small])
        assert (read_label(str(path)) == RAMP).all()


def test_of_sixteen_bits_and_three_channels_the_first_has_the_ids(tmp_path: Path) -> None:
    path, wide = str(tmp_path / "a.png"), RAMP.astype(np.uint16)
    cv2.imwrite(path, cv2.merge([0 * wide, wide + 300, wide]))  # B, instances, ids: as SYNTHIA
    assert (read_label(path, first_channel=True) == RAMP).all()
    with pytest.raises(DataError, match=r"a\.png: .*first_channel"):
        read_label(path)
    Image.fromarray(RAMP).convert("RGBA").save(path)
    with pytest.raises(DataError, match=r"a\.png: .*one channel"):
        read_label(path, first_channel=True)


@pytest.mark.parametrize("kind", ["uint8", "uint16", "int64", "bool"])
def test_label_of_numpy(tmp_path: Path, kind: str) -> None:
    np.save(tmp_path / "a.npy", RAMP.astype(kind))
    assert (read_label(str(tmp_path / "a.npy")) == RAMP.astype(kind)).all()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (RAMP - 1.0, "whole numbers, not float64"),
        (RAMP.astype(int) - 1, "has the label id -1,"),
        (RAMP[0], "one channel"),
        (np.zeros((0, 4), int), "one channel"),
        (np.array([[None]]), "not an array of numbers"),
    ],
)
def test_array_that_is_no_label(tmp_path: Path, array: np.ndarray, message: str) -> None:
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(DataError, match=rf"a\.npy: .*{message}"):
        read_label(str(tmp_path / "a.npy"))
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-1])
    with pytest.raises(DataError, match=r"a\.npy: is not an array"):
        read_label(str(tmp_path / "a.npy"))


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P"])
def test_label_of_colors(tmp_path: Path, mode: str) -> None:
    path, colors = str(tmp_path / "a.png"), [[128, 64, 128], [0, 0, 0], [64, 128, 128], [0, 0, 142]]
    ids, image = RAMP % 4, Image.fromarray(np.array(colors, np.uint8)[RAMP % 4])
    image.convert(mode, palette=Image.Palette.ADAPTIVE).save(path)  # a palette only of mode P
    assert (read_label(path, colors=colors) == ids).all()
    with pytest.raises(DataError, match=r"a\.png: has the colors \[0, 0, 142\], which"):
        read_label(path, colors=colors[:3])
    image.putalpha(254)
    image.save(path)
    with pytest.raises(DataError, match=r"a\.png: .*opaque"):
        read_label(path, colors=colors)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("ending", ["jpg", "png", "webp", "tif", "avif"])
def test_image_is_turned_as_displayed(tmp_path: Path, ending: str, orientation: int) -> None:
    path, exif = tmp_path / f"a.{ending}", Image.Exif()
    exif[274] = orientation
    Image.fromarray(cv2.merge([RAMP, RAMP // 2, 255 - RAMP])).save(path, exif=exif)
    with Image.open(path) as image:
        displayed = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    assert np.abs(read_image(str(path)).astype(int) - displayed).max() <= 2
    assert read_size(str(path)) == displayed.shape[:2]
    if ending == "png":  # the chunk may also follow the pixels
        data = path.read_bytes()
        begin = data.index(b"eXIf") - 4
        chunk = data[begin : begin + 12 + int.from_bytes(data[begin : begin + 4], "big")]
        path.write_bytes(data.replace(chunk, b"")[:-12] + chunk + data[-12:])
        assert read_size(str(path)) == read_image(str(path)).shape[:2] == displayed.shape[:2]
    if ending in ("png", "tif") and orientation > 1:
        Image.fromarray(RAMP).save(path, exif=exif)
        with pytest.raises(DataError, match=rf"a\.{ending}: has an EXIF orientation"):
            read_label(str(path))


def test_gray_levels_of_a_pgm_are_scaled_in_images_only(tmp_path: Path) -> None:
    (tmp_path / "a.pbm").write_bytes(b"P1 2 1\n1 0\n")
    assert read_image(str(tmp_path / "a.pbm"))[0, :, 0].tolist() == [0, 255]
    (tmp_path / "a.pgm").write_bytes(b"P5 2 1 15\n\x03\x0f")
    assert read_image(str(tmp_path / "a.pgm"))[0, :, 0].tolist() == [51, 255]
    assert read_label(str(tmp_path / "a.pgm")).tolist() == [[3, 15]]
    (tmp_path / "a.pgm").write_text("P2 2 1 255\n3 15\n")
    assert read_label(str(tmp_path / "a.pgm")).tolist() == [[3, 15]]
    (tmp_path / "a.pgm").write_text("P2 2 1 1\n0 1\n")  # OpenCV and Pillow give 0 and 255
    with pytest.raises(DataError, match=r"a\.pgm: has 1 bits a value, which tools scale"):
        read_label(str(tmp_path / "a.pgm"))


def test_label_must_be_lossless(tmp_path: Path) -> None:
    for kind in ("jpg", "jp2", "webp", "tif"):
        Image.fromarray(RAMP).save(tmp_path / f"a.{kind}", compression="jpeg")
        (tmp_path / f"a.{kind}").rename(tmp_path / "a.png")
        with pytest.raises(DataError, match=r"a\.png: .*changes ids"):
            read_label(str(tmp_path / "a.png"))
    for kind, reason in (
        ("gif", "GIF but"),
        ("webp", "WEBP, which changes ids unless it is lossless"),
    ):
        Image.fromarray(RAMP).save(tmp_path / f"a.{kind}", lossless=True)
        with pytest.raises(DataError, match=rf"a\.{kind}: a label map must not be {reason}"):
            read_label(str(tmp_path / f"a.{kind}"))
    path = tmp_path / "cut.tif"
    Image.fromarray(RAMP).save(path, compression="tiff_lzw")
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(DataError, match=r"cut\.tif: a label map must not be damaged"):
        read_label(str(path))
    for compression in ("tiff_lzw", "tiff_adobe_deflate"):  # of which OpenCV gives a part
        noise = np.random.default_rng(0).integers(0, 4, RAMP.shape, np.uint8)
        Image.fromarray(noise).save(path, compression=compression)
        sound = path.read_bytes()
        path.write_bytes(sound[:500] + bytes(30) + sound[530:])
        for read in (read_label, read_image):
            with pytest.raises(DataError, match=r"cut\.tif: .*decoder error"):
                read(str(path))
    sound = tiff_of(8, 1, 1, RAMP.tobytes())
    path.write_bytes(sound[:118] + b"\xa0\x0f" + sound[120:])  # where the next page is
    with pytest.raises(DataError, match=r"cut\.tif: is damaged"):
        read_label(str(path))
    for kind in ("bmp", "png"):
        cv2.imwrite(str(tmp_path / f"a.{kind}"), RAMP)
        assert (read_label(str(tmp_path / f"a.{kind}")) == RAMP).all()


def test_a_picture_that_decodes_to_gigabytes_is_refused(tmp_path: Path) -> None:
    sound = cv2.imencode(".png", RAMP)[1].tobytes()
    head = sound[12:16] + (60_000).to_bytes(4, "big") * 2 + sound[24:29]
    path = tmp_path / "bomb.png"
    path.write_bytes(sound[:12] + head + zlib.crc32(head).to_bytes(4, "big") + sound[33:])
    for read in (read_image, read_label):
        with pytest.raises(DataError, match=r"bomb\.png: is too large"):
            read(str(path))


def test_a_pipe_is_no_image(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jpg")
    with pytest.raises(DataError, match=r"a\.jpg: .*regular"):
        existing_files([str(tmp_path / "a.jpg")])


def test_links_are_followed(tmp_path: Path) -> None:
    root, secret = tmp_path / "root", tmp_path / "secret"
    for folder in (root, secret):
        folder.mkdir()
        (folder / "1.jpg").touch()
    (root / "2.jpg").symlink_to(root / "1.jpg")
    (tmp_path / "linked").symlink_to(root)
    inside = [str(tmp_path / "linked" / name) for name in ("1.jpg", "2.jpg")]
    absent = [str(tmp_path / "linked" / name) for name in ("3.jpg", "no/1.jpg")]
    assert existing_files(inside + absent) == set(inside)
    (root / "circle.jpg").symlink_to(root / "circle.jpg")
    with pytest.raises(DataError, match=r"circle\.jpg: "):
        existing_files([str(root / "circle.jpg")])
    (root / "3.jpg").symlink_to(secret / "1.jpg")
    (root / "more").symlink_to(secret)
    assert "more/1.jpg" in walk_files(root)
    for here, there in (("a", "b"), ("b", "a")):  # each has the other
        (secret / here).mkdir()
        (secret / here / there).symlink_to(secret / there)
        (secret / here / "1.jpg").touch()
    listed = ["1.jpg", "a/1.jpg", "a/b/1.jpg", "b/1.jpg", "b/a/1.jpg"]
    assert [*walk_files(secret)] == listed
    outside = {str(root / name) for name in ("3.jpg", "more/1.jpg")}
    assert existing_files(outside) == outside
