"""Atomic files: whole or not at all, and no leftovers."""

import os

import pytest

from fedseg import files
from fedseg.errors import DataError, ResourceError
from fedseg.files import (
    atomic_writer,
    csv_cell,
    open_to_append,
    read_bytes,
    read_json,
    remove_temporaries,
    sha256,
    write_text,
)


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


def test_links_lead_no_writer_out_and_pipes_stop_none(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("precious")
    path = tmp_path / "file"
    path.symlink_to(outside)
    path.with_name("file.tmp").symlink_to(outside)
    with pytest.raises(DataError, match="file: is not a regular file"):
        open_to_append(path)
    write_text(path, "text")
    assert outside.read_text() == "precious" and not path.is_symlink()
    with open_to_append(path) as file:
        file.write(b" and more")
    assert path.read_text() == "text and more"
    with pytest.raises(IsADirectoryError) as error:
        write_text(tmp_path, "text")
    assert error.value.filename == str(tmp_path)  # not the temporary file
    os.mkfifo(tmp_path / "pipe")
    for write in (atomic_writer, open_to_append):
        with pytest.raises(DataError, match="pipe: is not a regular file"):
            write(tmp_path / "pipe").__enter__()


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


def test_only_regular_files_of_a_bearable_size_are_read(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")  # which would wait for a writer for ever
    (tmp_path / "link").symlink_to("/dev/zero")
    for name in ("pipe", "link", ".", "none"):
        with pytest.raises(OSError, match=r"regular|Is a directory|No such"):
            read_bytes(tmp_path / name)
    (tmp_path / "file").write_bytes(b"four")
    monkeypatch.setattr(files, "LARGEST", 4)
    assert read_bytes(tmp_path / "file") == b"four"
    (tmp_path / "file").write_bytes(b"fives")
    with pytest.raises(OSError, match="more than 4 B"):
        read_bytes(tmp_path / "file")


BAD_JSON = ["", "{", '{"a": 1, "a": 2}', "NaN", "[" * 100_000, "[" * 60 + "]" * 60]
BAD_JSON += ["1" * 10_000, '"\\ud800"', "\xff"]


@pytest.mark.parametrize("text", BAD_JSON, ids=range(len(BAD_JSON)))
def test_what_is_no_json(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_bytes(text.encode("latin1"))
    with pytest.raises(DataError, match=r"a\.json: .*: mend it$"):
        read_json(path, "mend it")


def test_both_halves_of_a_pair_are_a_character(tmp_path):
    (tmp_path / "a.json").write_text(r'["\ud83d\ude00"]')
    assert read_json(tmp_path / "a.json") == ["\U0001f600"]
    (tmp_path / "a.json").write_text(r'["\ud83d"]')
    assert read_json(tmp_path / "a.json", strict=False) == ["\ud83d"]


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("a;=1+1", "a;'=1+1"),
        ('a; "@SUM(A1)"; b', 'a;\' "@SUM(A1)"; b'),
        ("a\n-1", "a\n'-1"),
        ("\tx", "'\tx"),
        ("\uff1d1", "'\uff1d1"),
        ("a=b; c+d", "a=b; c+d"),
        (-1.5, -1.5),
    ],
)
def test_no_cell_becomes_a_formula_wherever_it_is_separated(text, cell):
    assert csv_cell(text) == cell


def test_a_table_for_excel_says_its_encoding_where_it_matters(tmp_path):
    write_text(tmp_path / "a.csv", "class\nStraße\n")
    write_text(tmp_path / "b.csv", "class\nroad\n")
    assert (tmp_path / "a.csv").read_bytes() == b"\xef\xbb\xbf" + "class\nStraße\n".encode()
    assert (tmp_path / "b.csv").read_bytes() == b"class\nroad\n"
