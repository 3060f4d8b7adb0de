"""Images and label maps that are checked without being decoded."""

import struct
import zlib

import pytest
from prepare_tools import write_pair

from fedseg.data_prep.disk import Findings, check_headers
from fedseg.errors import DataError


def chunk(kind, content=b""):
    checked = kind + content
    return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))


def test_what_is_wrong_with_files_is_told_together(tmp_path):
    samples = [(f"{name}.png", f"{name}_ids.png") for name in ("sound", "cut", "other", "huge")]
    for sample in samples:
        write_pair(tmp_path, tmp_path, sample)
    check_headers(samples, tmp_path, tmp_path, Findings("all", "fix"))
    cut = tmp_path / "cut.png"
    cut.write_bytes(cut.read_bytes()[:-12])
    write_pair(*[tmp_path / "of another size"] * 2, samples[2], size=(4, 4))
    (tmp_path / "of another size" / "other_ids.png").rename(tmp_path / "other_ids.png")
    size = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)  # more than Pillow opens
    huge = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT") + chunk(b"IEND")
    (tmp_path / "huge_ids.png").write_bytes(huge)
    with pytest.raises(DataError) as error:
        check_headers(samples, tmp_path, tmp_path, Findings("all", "fix"))
    told = str(error.value)
    assert "2 unreadable or truncated files: cut.png, huge_ids.png" in told
    assert "1 labels of another size than their image: other_ids.png" in told
