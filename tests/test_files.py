"""Atomic files: whole or not at all, and no leftovers."""

import pytest

from fedseg.errors import DataError, ResourceError
from fedseg.files import atomic_writer, read_json, remove_temporaries, sha256, write_text


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


def test_links_lead_no_writer_out(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("precious")
    path = tmp_path / "file"
    path.symlink_to(outside)
    write_text(path, "text")
    assert outside.read_text() == "precious" and not path.is_symlink()
    with pytest.raises(DataError, match="device"), atomic_writer("/dev/null"):
        pass
    with pytest.raises(IsADirectoryError) as error:
        write_text(tmp_path, "text")
    assert error.value.filename == str(tmp_path)  # not the temporary file


def test_what_a_kill_leaves_is_removed(tmp_path):
    with atomic_writer(tmp_path / "a.pth") as file:
        left = (tmp_path / file.name).name
    for name in (left, "b.tmp", "a.pth.short.tmp"):
        (tmp_path / name).touch()
    remove_temporaries(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"a.pth", "b.tmp", "a.pth.short.tmp"}
    remove_temporaries(tmp_path / "none")


def test_an_error_that_says_why_says_where(tmp_path):
    path = tmp_path / "a"
    for given, shown in (((28, "No space left on device"), str(path)), (("5 of 9 written",), None)):
        with pytest.raises(OSError, match=given[-1]) as error, atomic_writer(path):
            raise OSError(*given)
        assert error.value.filename == shown
    for place in ("/proc/none/a", "/proc/none"):  # where only the system makes files
        with pytest.raises(ResourceError, match=r"^/proc/none: .*: write elsewhere$"):
            write_text(place, "")


def test_sha256_of_a_known_text(tmp_path):
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    assert sha256(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


BAD_JSON = ["", "{", "NaN", "[" * 100_000, "1" * 10_000, "\xff"]


@pytest.mark.parametrize("text", BAD_JSON, ids=range(len(BAD_JSON)))
def test_what_is_no_json(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_bytes(text.encode("latin1"))
    with pytest.raises(DataError, match=r"a\.json: .*: mend it$"):
        read_json(path, "mend it")
