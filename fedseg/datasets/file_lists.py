"""Lists of files below a folder; links are followed."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from fedseg.errors import DataError


def is_hidden(path: str) -> bool:
    """True if a part of a path is a file of the system or an editor: macOS, Synology."""
    return any(part[:1] == "." or part in ("__MACOSX", "@eaDir") for part in path.split("/"))


def walk_files(root: str | Path) -> Iterator[str]:
    """Paths below a root of the files there, hidden ones too, in torchvision's order."""
    folders_with_names = []
    passed = {os.fspath(root): [Path(os.path.realpath(root))]}  # the real folders above one
    for place, folders, names in os.walk(root, followlinks=True):
        folders_with_names.append((place, names))
        above = passed.pop(place)
        for name in [*folders]:
            path = os.path.join(place, name)
            real = Path(os.path.realpath(path))
            if any(one.is_relative_to(real) for one in above):  # a circle
                folders.remove(name)
            else:
                passed[path] = [*above, real]
    for place, names in sorted(folders_with_names):
        below = f"{Path(place).relative_to(root).as_posix()}/".removeprefix("./")
        yield from (below + name for name in sorted(names))


def check_exist(paths: Sequence[str], root: str | Path, fix: str) -> None:
    """Raise DataError with the first of the missing files; ``root`` names the data set."""
    if missing := sorted(set(paths) - existing_files(paths)):
        raise DataError(
            f"{root}: {len(missing)} of {len(paths)} files are missing ({', '.join(missing[:5])}"
            f"{', ...' * (len(missing) > 5)}): {fix}"
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
