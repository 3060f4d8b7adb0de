"""Command lines in processes of their own that need not import everything again.

Importing torch, MMSegmentation and the rest costs seconds of a processor, a run on a toy less than
one. So a server process imports the engine once (multiprocessing's fork server), and every command
line is a fork of it: a process with signals, a working folder, an environment and an exit code of
its own, in which the tool's file runs as ``__main__``.
"""

import atexit
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TIMEOUT = 300  # seconds; only a process that hangs takes so long

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "fedseg.data_prep.classification",
        *("fedseg.data_prep.feddrive", "fedseg.leaderboard.page", "fedseg.models"),
        *("fedseg.report.pictures", "fedseg.report.summary", "fedseg.runner.experiment"),
        "torch.utils.tensorboard",
    ]
)
_started: list[BaseProcess] = []


class CommandLine:
    """A started tool, as :class:`subprocess.Popen` but for its output, which goes to files.

    Args:
        tool: its name in ``tools/``, or ``fedseg``. arguments: as on a command line.
        cwd: its working folder, by default the current one.
        environment: variables that differ from the current ones.
    """

    def __init__(
        self,
        tool: str,
        *arguments: object,
        cwd: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._files = [Path(self._folder.name) / name for name in ("out", "err")]
        for file in self._files:
            file.touch()
        script = ROOT / "fedseg" / "__main__.py" if tool == "fedseg" else ROOT / "tools" / tool
        self.args = [str(script), *map(str, arguments)]
        variables = {**os.environ, **(environment or {})}
        told = (self.args, self._files, str(cwd or Path.cwd()), variables)
        self._process = _FORKS.Process(target=_be_the_tool, args=told)
        self._process.start()
        _started.append(self._process)

    @property
    def pid(self) -> int:
        """Of the process, and of the group of it and its loader workers."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, minus a signal's number if it was one; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float = TIMEOUT) -> int:
        """The exit code.

        Raises:
            subprocess.TimeoutExpired: with what was said; nothing of the process is left.
        """
        self._process.join(timeout)
        if self.returncode is None:
            kill(self._process)
            raise subprocess.TimeoutExpired(self.args, timeout, *self._said())
        if self._process in _started:
            _started.remove(self._process)  # with what it holds open
        return self.returncode

    def communicate(self, timeout: float = TIMEOUT) -> tuple[str, str]:
        """Standard output and error, when it has ended; raises as :meth:`wait`."""
        self.wait(timeout)
        return self._said()

    def _said(self) -> tuple[str, str]:
        out, err = (file.read_text(encoding="utf-8") for file in self._files)
        return out, err


def run(
    tool: str, *arguments: object, timeout: float = TIMEOUT, **options: object
) -> subprocess.CompletedProcess:
    """Start a tool and wait for its end, as :func:`subprocess.run`; options: see above."""
    started = CommandLine(tool, *arguments, **options)
    out, err = started.communicate(timeout)
    return subprocess.CompletedProcess(started.args, started.returncode, out, err)


def python(program: str, **options: Any) -> str:
    """Standard output of a program in an interpreter of its own, which must succeed."""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


class ForkedJob:
    """A run of a sweep as a fork, in the place of its :class:`subprocess.Popen`."""

    def __init__(self, job: Any, slot: Any) -> None:
        job.work_dir.mkdir(parents=True, exist_ok=True)
        self._output = job.work_dir / "output.txt"
        self._line = CommandLine("train.py", *job.train_command[4:])
        self.terminate = self._line._process.terminate

    def wait(self) -> int:
        code = self._line.wait()
        self._output.write_text("".join(self._line._said()), encoding="utf-8")
        return code


def kill(process: BaseProcess) -> None:
    """SIGKILL a command line and its children, stopped ones too, and wait for its end."""
    for send in (os.killpg, os.kill):  # the group is made a moment after the process
        try:
            send(process.pid, signal.SIGKILL)
            break
        except ProcessLookupError:
            continue
    process.join()


@atexit.register
def _leave_nothing() -> None:
    for process in _started:
        if process.exitcode is None:
            kill(process)


def _be_the_tool(
    arguments: Sequence[str], files: Sequence[Path], cwd: str, variables: dict[str, str]
) -> None:
    os.setsid()
    for file, descriptor in zip(files, (1, 2), strict=True):
        opened = os.open(file, os.O_WRONLY)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(cwd)
    os.fsync = lambda descriptor: None  # as in tests/conftest.py
    sys.argv = list(arguments)
    runpy.run_path(arguments[0], run_name="__main__")
