"""Images and label maps that are checked without being decoded."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image
from prepare_tools import write_pair

from fedseg.data_prep.disk import Findings, check_files
from fedseg.errors import DataError


def chunk(kind, content=b""):
    checked = kind + content
    return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))


@pytest.mark.parametrize("bomb", ["pixels", "text"])
def test_files_that_decode_to_gigabytes_are_told(tmp_path, bomb):
    samples, roots = [(f"{name}.png", f"{name}_ids.png") for name in "ab"], (tmp_path, tmp_path)
    for sample in samples:
        write_pair(tmp_path, tmp_path, sample)
    check_files(samples, roots, tmp_path, Findings("all", "fix"))
    file = tmp_path / ("b_ids.png" if bomb == "pixels" else "b.png")
    size = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)  # more than Pillow opens
    huge = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT") + chunk(b"IEND")
    text, whole = chunk(b"zTXt", b"note\0\0" + zlib.compress(b"a" * 2**21)), file.read_bytes()
    file.write_bytes(huge if bomb == "pixels" else whole[:33] + text + whole[33:])
    with pytest.raises(DataError, match=rf"1 unreadable or truncated files: {file.name}"):
        check_files(samples, roots, tmp_path, Findings("all", "fix"))


def test_missing_files_are_refused_and_links_are_followed(tmp_path):
    samples = [("a.png", "a_ids.png"), ("b.png", "b_ids.png")]
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    write_pair(root, root, samples[0])
    with pytest.raises(DataError, match=r"2 of 4 files missing: .*b\.png, .*b_ids\.png"):
        check_files(samples, (root, root), root, Findings("all", "fix"))
    write_pair(elsewhere, elsewhere, samples[1])
    for name in samples[1]:
        (root / name).symlink_to(elsewhere / name)
    check_files(samples, (root, root), root, Findings("all", "fix"))


def test_images_of_another_size_than_published_are_told(tmp_path, capsys):
    samples = [("a.png", "a_ids.png"), ("b.png", "b_ids.png")]
    for sample, size in zip(samples, ((8, 6), (4, 3)), strict=True):
        write_pair(tmp_path, tmp_path, sample, size=size)
    found = Findings("all", "fix")
    check_files(samples, (tmp_path, tmp_path), tmp_path, found, published=(8, 6))
    assert "1 of 2 images are not 8x6, as they are published" in capsys.readouterr().out
    check_files(samples[:1], (tmp_path, tmp_path), tmp_path, found, published=(8, 6))
    assert not capsys.readouterr().out


@pytest.mark.parametrize("mode", ["P", "RGB", "RGBA", "I;16", "1"])
def test_label_maps_that_training_could_not_read(tmp_path, mode):
    sample = ("a.png", "a_ids.png")
    write_pair(tmp_path, tmp_path, sample)
    label = tmp_path / sample[1]
    with Image.open(label) as image:
        ids = np.array(image, np.uint16)
    image = Image.fromarray(ids) if mode == "I;16" else Image.fromarray(ids.astype(np.uint8))
    (image if mode == "I;16" else image.convert(mode)).save(label)
    if mode == "P":  # its indices are ids, which training reads
        check_files([sample], (tmp_path, tmp_path), tmp_path, Findings("all", "fix"))
        return
    with pytest.raises(
        DataError, match="1 label maps that are not 8-bit and single-channel: a_ids"
    ):
        check_files([sample], (tmp_path, tmp_path), tmp_path, Findings("all", "fix"))
