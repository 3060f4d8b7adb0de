"""A user's terminal: a folder, an environment that is activated, and what commands print."""

import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from command_lines import words
from environment import Environment

TIMEOUT = 1200  # seconds; only a process that hangs takes so long
SHOWN = 3000  # characters of an output, its end, where a test fails


@dataclass(frozen=True)
class Output:
    """What a command left.

    Attributes:
        code: its exit code.
        text: standard output and standard error, as a terminal shows them.
    """

    code: int
    text: str


class Programs(Protocol):
    """What runs a command line in a folder."""

    def run(self, command: Sequence[str], folder: Path) -> Output: ...


class Processes:
    """Every command is a process of its own, as for a user."""

    def __init__(self, environment: Environment) -> None:
        self.variables = environment.variables()

    def run(self, command: Sequence[str], folder: Path) -> Output:
        done = subprocess.run(
            list(command),
            cwd=folder,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
        )
        return Output(done.returncode, done.stdout)


class Forks:
    """Commands of fedseg and scripts are forks of one process, others processes of their own."""

    def __init__(self, environment: Environment) -> None:
        self.processes = Processes(environment)
        script = Path(__file__).with_name("fork_server.py")
        self.server = subprocess.Popen(
            [str(environment.python), str(script)],
            env=environment.variables(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, command: Sequence[str], folder: Path) -> Output:
        is_script = command[0] == "python" and command[1].endswith(".py")
        if command[0] != "fedseg" and not is_script:
            return self.processes.run(command, folder)
        with tempfile.NamedTemporaryFile(mode="r", encoding="utf-8", errors="replace") as output:
            asked = {"words": list(command), "folder": str(folder), "output": output.name}
            self.server.stdin.write(f"{json.dumps(asked)}\n")
            self.server.stdin.flush()
            code = int(self.server.stdout.readline())
            return Output(code, output.read())

    def close(self) -> None:
        self.server.terminate()  # a fork of the tests may hold its input open
        self.server.wait()
        self.server.stdin.close()
        self.server.stdout.close()


class Terminal:
    """Runs command lines in a folder; pytest shows what they print if the test fails."""

    def __init__(self, programs: Programs, folder: Path) -> None:
        self.programs, self.folder = programs, folder

    def run(self, line: str) -> str:
        """The output of a command that succeeds."""
        output = self._run(line)
        assert output.code == 0, f"$ {line}: exit code {output.code}"
        return output.text

    def fail(self, line: str) -> str:
        """The message of a command that is refused with one sentence."""
        output = self._run(line)
        assert output.code == 2, f"$ {line}: exit code {output.code}"
        assert "Traceback" not in output.text
        return output.text

    def write(self, name: str, text: str) -> None:
        """Write a file of the user's."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def _run(self, line: str) -> Output:
        output = self.programs.run(words(line), self.folder)
        print(f"$ {line}\n{output.text[-SHOWN:]}")
        return output
