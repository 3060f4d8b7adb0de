"""Run a case in a folder of its own, and judge what the command line did with it."""

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import toyseg
from command_line import run

from tests.campaign.cases import Case
from tests.campaign.damage import CANARY
from tests.campaign.sound import COMMANDS, TEMPLATES

TIMEOUT = 60  # seconds; a sound command takes one or two
LONGEST = 1500  # characters of a message
CLEAR, UNCLEAR, SILENT, HANG, EXECUTED = "clear", "unclear", "silent", "hang", "executed"
CLASSES = (CLEAR, UNCLEAR, SILENT, HANG, EXECUTED)
RAW = re.compile(r"\x1b\[31m|^=1\+cmd|,=1\+cmd", re.MULTILINE)  # texts not escaped


@dataclass(frozen=True)
class Verdict:
    case: Case
    judged: str  # one of CLASSES
    why: str
    said: str = ""  # standard output and error


class Judge:
    """Makes templates once, runs cases on copies of them.

    Args:
        folder: where templates and cases go.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.template = cache(self._template)
        self.sound = cache(self._sound)

    def _template(self, name: str) -> Path:
        made = self.folder / name
        made.mkdir(parents=True)
        TEMPLATES[name](made)
        return made

    def _copy(self, command: str, work: Path) -> list[str]:
        """The command line, in a copy of its template."""
        shutil.copytree(self.template(COMMANDS[command].template), work, symlinks=True)
        return COMMANDS[command].line.split()

    def _sound(self, command: str) -> tuple[Any, set[str]]:
        """What a command makes of sound inputs, and the lines that it says."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            work = Path(folder) / "case"
            done = run(*self._copy(command, work), cwd=work)
            assert done.returncode == 0, f"{command} fails on sound input: {done.stderr}"
            outcome = COMMANDS[command].outcome(work, done.stdout)
            return outcome, {*(done.stdout + done.stderr).splitlines()}

    def __call__(self, case: Case, keep: Path | None = None) -> Verdict:
        """Run a case; ``keep``: where its folder goes."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            work = keep or Path(folder) / "case"
            line = self._copy(case.command, work)
            case.damage.apply(work / case.file)
            try:
                done = run(*line, cwd=work, timeout=TIMEOUT)
            except subprocess.TimeoutExpired as error:
                return Verdict(case, HANG, f"no end within {TIMEOUT} s", f"{error.stderr}")
            return Verdict(case, *self._judge(case, work, done), done.stdout + done.stderr)

    def _judge(self, case: Case, work: Path, done: subprocess.CompletedProcess) -> tuple[str, str]:
        text, command = done.stdout + done.stderr, COMMANDS[case.command]
        if (work / CANARY).exists() or (work.parent / CANARY).exists():
            return EXECUTED, "a payload ran"
        shown = {p: p.read_text() for p in (work / "out").glob("*.*") if p.suffix != ".png"}
        pages = [said for path, said in shown.items() if path.suffix in (".md", ".html")]
        raw = any(RAW.search(part) for part in (text, *shown.values()))
        if case.damage.valid and (raw or any("<script>alert" in page for page in pages)):
            return EXECUTED, "a hostile text was shown as it is"
        if "Traceback" in text or done.returncode < 0:
            return UNCLEAR, f"a traceback, or a signal: exit code {done.returncode}"
        if done.returncode:
            _, error, message = done.stderr.rpartition("error: ")
            if case.command != "verify" and (not error or len(message) > LONGEST):
                return UNCLEAR, f"exit code {done.returncode}, message of {len(message)} characters"
            named = _names(case, text)
            return (CLEAR, "refused") if named else (UNCLEAR, "names neither file nor field")
        outcome, usual = self.sound(case.command)
        made = command.outcome(work, done.stdout)
        if made is not None and not toyseg.differences([made], [outcome]):
            return CLEAR, "the same result"
        logs = [line for path in work.rglob("*.log") for line in path.read_text().splitlines()]
        new = [line for line in text.splitlines() if line not in usual]
        named = _names(case, "\n".join(new + [line for line in logs if "WARNING" in line]))
        if case.damage.valid or (named and not command.strict):
            return CLEAR, "another result, and a word about it"
        return SILENT, "another result" + (", in spite of a word about it" if named else "")


def _names(case: Case, text: str) -> bool:
    """Whether a text names the damaged file, its folder, or a field on the way to the damage."""
    file = Path(case.file)
    if file.suffix == ".py" and case.damage.fields:  # the config is named anyhow
        return any(re.search(rf"\b{re.escape(name)}\b", text) for name in case.damage.fields)
    index = "dataset.json" if file.suffix == ".npy" else file.name  # which has their checksums
    folder = f"{file.parent}{':' * (case.damage.what != 'missing')}"
    names = (file.name, index, folder, *case.damage.fields)
    return any(name in text for name in names)
