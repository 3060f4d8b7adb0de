"""How a command ends: quietly, and with all that was to be written."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fedseg import cli

PROGRAM = """\
import sys
from fedseg import cli
from fedseg.errors import DataError

def main():
    if sys.argv[1] == "fails":
        raise DataError("file: is missing")
    if sys.argv[1] == "interrupted":  # as pybind11 passes on Ctrl-C while a module is imported
        raise ImportError("initialization failed") from KeyboardInterrupt()
    if sys.argv[1] == "names":
        print("Straße ±", flush=True)
        import matplotlib
    if sys.argv[1] == "table":
        cli.wide_console().print("line\\n" * 100_000)
    if sys.argv[1] == "much":
        for _ in range(100_000):
            print("line")
    print("end", end="")
    print("told", end="", file=sys.stderr)
    return 3

cli.run(main)
"""


def run(word: str, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", PROGRAM, word]
    return subprocess.run(command, text=True, stderr=subprocess.PIPE, **options)


def test_advised_commands_execute_nothing_of_the_current_folder(tmp_path, monkeypatch):
    """``python -m`` alone puts that folder on the path."""
    monkeypatch.setattr("sys.executable", str(tmp_path / "env" / "python"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.program() == f"{tmp_path}/env/python -P -m fedseg"
    script = tmp_path / "env" / "fedseg"
    script.parent.mkdir()
    script.touch(mode=0o755)
    assert cli.program() == "env/fedseg"
    monkeypatch.setenv("PATH", str(script.parent))
    assert cli.program() == "fedseg"
    monkeypatch.chdir(script.parent.parent.parent)
    monkeypatch.setenv("PATH", "")
    assert cli.program() == f"{tmp_path.name}/env/fedseg"


def test_repeated_options_add_up():
    parser = cli.parser("", "")
    cli.add_methods(parser, "")
    cli.add_cfg_options(parser, "")
    cli.add_trust(parser)
    for name, dest in (("--with", "methods"), ("--cfg-options", "options"), ("--trust",) * 2):
        given = vars(parser.parse_args([name, "a", "b", name, "c"]))
        assert given[dest.lstrip("-")] == ["a", "b", "c"]
    assert all(values == [] for values in vars(parser.parse_args([])).values())


@pytest.mark.parametrize(
    ("word", "code", "text", "told"),
    [
        ("", 3, "end", "told"),
        ("fails", 2, "", "error: file: is missing\n"),
        ("interrupted", 130, "", "interrupted\n"),
    ],
)
def test_output_is_written(word, code, text, told):
    done = run(word, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout, done.stderr) == (code, text, told)


def test_neither_the_encoding_nor_the_display_of_a_user_ends_a_command():
    surroundings = {**os.environ, "PYTHONIOENCODING": "ascii", "MPLBACKEND": "no_such"}
    done = run("names", stdout=subprocess.PIPE, env=surroundings)
    assert done.returncode == 3 and "Stra\\xdfe \\xb1" in done.stdout, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full")
@pytest.mark.parametrize("word", ["little", "much"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written_is_told(unbuffered, word):
    with Path("/dev/full").open("w") as full:
        done = run(word, stdout=full, env={**os.environ, "PYTHONUNBUFFERED": unbuffered})
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr and "ignored" not in done.stderr


@pytest.mark.parametrize("closed", [(1,), (2,), (1, 2)])
@pytest.mark.parametrize(("word", "code"), [("", 3), ("fails", 2)])
def test_output_that_the_shell_has_closed(word, code, closed):
    close = " ".join(f"{number}>&-" for number in closed)
    command = f"exec {shlex.quote(sys.executable)} -c {shlex.quote(PROGRAM)} '{word}' {close}"
    done = subprocess.run(command, shell=True, text=True, capture_output=True)
    assert done.returncode == code and "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals of pipes")
@pytest.mark.parametrize("word", ["little", "much", "table"])
def test_a_reader_that_has_enough_is_no_error(word):
    command = [sys.executable, "-c", PROGRAM, word]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    started.stdout.close()
    assert started.stderr.read() in ("", "told")
    assert started.wait() == 1
