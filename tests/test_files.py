"""Atomic files: whole or not at all, and no leftovers."""

import pytest

from fedseg.files import atomic_writer, sha256, write_text


def test_text_is_written_whole_and_nothing_else_stays(tmp_path):
    path = tmp_path / "new" / "file.txt"
    write_text(path, "one\r\ntwo\n", sync=True)
    assert path.read_bytes() == b"one\r\ntwo\n"
    assert list(path.parent.iterdir()) == [path]


def test_an_error_leaves_the_old_content(tmp_path):
    path = tmp_path / "file.bin"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), atomic_writer(path, "wb") as file:
        file.write(b"new")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_sha256_of_a_known_text(tmp_path):
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    assert sha256(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
