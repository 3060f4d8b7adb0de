"""Finished runs below some folders."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fedseg.errors import DataError
from fedseg.runs.curvature_files import with_curvature
from fedseg.runs.schema import FILE_NAME, Results, read_results

ASIDE = "previous"  # where a new run moves an earlier one of its folder


@dataclass(frozen=True)
class FoundRun:
    """A finished run."""

    id: str  # its number among the runs of a board, such as "run3"
    folder: Path  # its work dir
    changed: float  # when its results were written, in seconds since the epoch
    results: Results


def read_runs(paths: Iterable[str | Path]) -> tuple[list[FoundRun], list[str]]:
    """Read every ``results.json`` below some folders, or given ones, but none in ``previous/``.

    Runs are in the order of their paths; messages say what cannot be read or was edited.
    """
    paths = [Path(path) for path in paths]
    messages = [f"{path}: does not exist" for path in paths if not path.exists()]
    files = {os.path.realpath(file): file for path in paths for file in _find(path, messages)}
    runs: list[FoundRun] = []
    for file in files.values():
        try:
            found = with_curvature(read_results(file), file.parent, messages)
            runs.append(FoundRun(f"run{len(runs) + 1}", file.parent, file.stat().st_mtime, found))
            if found.edited:
                messages.append(f"{file}: {found.edited}")
        except DataError as error:
            messages.append(str(error))
    if not files:
        messages.append(f"no {FILE_NAME} was found: name folders of finished runs")
    elif not runs:
        messages.append("no run could be read")
    return runs, list(dict.fromkeys(messages))


def _find(path: Path, messages: list[str]) -> Iterator[Path]:
    """The results below a path, in order; a message for a run that has none."""
    if path.is_file():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name != ASIDE)
        links = (Path(folder, name) for name in folders if Path(folder, name).is_symlink())
        yield from (link / FILE_NAME for link in links if (link / FILE_NAME).is_file())
        if FILE_NAME in names:
            yield Path(folder) / FILE_NAME
        elif "history.jsonl" in names:
            messages.append(
                f"{folder}: the run is not finished, it has no {FILE_NAME}; fedseg train CONFIG "
                "--work-dir DIR --resume continues it"
            )
