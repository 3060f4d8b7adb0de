"""Which files of a list exist; links are followed."""

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from fedseg.errors import DataError


def check_exist(paths: Sequence[str], root: str | Path, fix: str) -> None:
    """Raise DataError with the first of the missing files; ``root`` names the data set."""
    missing = sorted(set(paths) - existing_files(paths))
    if not missing:
        return
    examples = missing[:5]
    if len(missing) > len(examples):
        examples.append("...")
    raise DataError(
        f"{root}: {len(missing)} of {len(paths)} files are missing ({', '.join(examples)}): {fix}"
    )


def existing_files(paths: Iterable[str]) -> set[str]:
    """Those of the paths that exist, behind links too; DataError for what is no regular file."""
    # One listing per folder: asking the file system about each file is slow on network disks.
    folders: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        folders[os.path.dirname(path)].add(os.path.basename(path))
    existing: set[str] = set()
    for folder, wanted in folders.items():
        try:
            with os.scandir(folder) as entries:
                present = [entry for entry in entries if entry.name in wanted]
        except OSError:
            continue
        for entry in present:
            # of a link in a circle, the entry itself raises
            if not (os.path.isfile(entry.path) if entry.is_symlink() else entry.is_file()):
                raise DataError(f"{entry.path}: is not a regular file: put the image there")
        existing.update(os.path.join(folder, entry.name) for entry in present)
    return existing
