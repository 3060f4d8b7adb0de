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
ESCAPED = re.compile(r"\x1b\[31m|<script>alert|^=1\+cmd|,=1\+cmd", re.MULTILINE)


@dataclass(frozen=True)
class Verdict:
    """What a command line did with a damaged input."""

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
        self._sound = cache(self._sound_outcome)

    def _template(self, name: str) -> Path:
        made = self.folder / name
        made.mkdir(parents=True)
        TEMPLATES[name](made)
        return made

    def _sound_outcome(self, command: str) -> Any:
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            work, line = Path(folder) / "case", COMMANDS[command]
            shutil.copytree(self.template(line.template), work, symlinks=True)
            done = run(line.tool, *line.arguments, cwd=work)
            assert done.returncode == 0, f"{command} fails on sound input: {done.stderr}"
            return line.outcome(work, done.stdout)

    def prepare(self, commands: set[str]) -> None:
        """Make what these commands need, before threads ask for it."""
        for command in sorted(commands):
            self._sound(command)

    def __call__(self, case: Case, keep: Path | None = None) -> Verdict:
        """Run a case; ``keep``: where its folder goes."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            work, line = keep or Path(folder) / "case", COMMANDS[case.command]
            shutil.copytree(self.template(line.template), work, symlinks=True)
            case.damage.apply(work / case.file)
            try:
                done = run(line.tool, *line.arguments, cwd=work, timeout=TIMEOUT)
            except subprocess.TimeoutExpired as error:
                return Verdict(case, HANG, f"no end within {TIMEOUT} s", f"{error.stderr}")
            judged, why = self._judge(case, work, done)
            return Verdict(case, judged, why, done.stdout + done.stderr)

    def _judge(self, case: Case, work: Path, done: subprocess.CompletedProcess) -> tuple[str, str]:
        text = done.stdout + done.stderr
        if any(work.rglob(CANARY)) or (work.parent / CANARY).exists():
            return EXECUTED, "a payload ran"
        shown = [text, *(p.read_text() for p in (work / "out").glob("*.*") if p.suffix in SHOWN)]
        if case.damage.valid and any(ESCAPED.search(part) for part in shown):
            return EXECUTED, "a hostile text was shown as it is"
        if "Traceback" in text or done.returncode < 0:
            return UNCLEAR, f"a traceback, or a signal: exit code {done.returncode}"
        names = self._named(case, work, text)
        if done.returncode:
            message = done.stderr.rpartition("error: ")[2]
            if not message.strip() or len(message) > LONGEST:
                return UNCLEAR, f"exit code {done.returncode}, and {len(message)} characters"
            return (CLEAR, "refused") if names else (UNCLEAR, "names neither file nor field")
        line = COMMANDS[case.command]
        made = line.outcome(work, done.stdout)
        if made is not None and not toyseg.differences([made], [self._sound(case.command)]):
            return CLEAR, "the same result"
        if case.damage.valid or (names and not line.strict):
            return CLEAR, "another result, and a word about it"
        return SILENT, "another result" + (", in spite of a word about it" if names else "")

    def _named(self, case: Case, work: Path, text: str) -> bool:
        """Whether what was said, or logged, names the file or a field."""
        logs = (path.read_text(errors="replace") for path in work.rglob("*.log"))
        text = text + "".join(logs)
        file = Path(case.file)
        if file.name == "config.py" and case.damage.fields:
            return any(re.search(rf"\b{re.escape(name)}\b", text) for name in case.damage.fields)
        names = {file.name, file.stem, file.parent.name if file.parent.name else file.name}
        return any(name in text for name in {*names, *case.damage.fields})


SHOWN = (".md", ".csv", ".html")
