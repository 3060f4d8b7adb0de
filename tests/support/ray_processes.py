"""The processes of a run on Ray, and what they leave behind."""

import re
import subprocess
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path


def all_processes() -> dict[int, tuple[int, str]]:
    options = {"capture_output": True, "text": True, "check": True}
    listed = subprocess.run(["ps", "-eww", "-o", "pid=,ppid=,args="], **options).stdout
    lines = (line.split(maxsplit=2) for line in listed.splitlines())
    return {int(own): (int(parent), " ".join(args)) for own, parent, *args in lines}


def started_by(pid: int) -> dict[int, str]:
    """Processes below one, from what it started on, and their command lines."""
    everything, found, above = all_processes(), {}, {pid}
    while above:
        below = {own: args for own, (parent, args) in everything.items() if parent in above}
        found |= below
        above = set(below)
    return found


def workers_of(pid: int, loaders: bool = False) -> list[int]:
    """The workers of a run that have begun to work; with their loader processes or without."""
    everything = all_processes()
    titled = {
        own
        for own, args in started_by(pid).items()
        if args.startswith("ray::Worker") and not args.startswith("ray::Worker.build")
    }
    return [own for own in titled if loaders or everything.get(own, (own,))[0] not in titled]


def segments_of(pids: Iterable[int]) -> set[Path]:
    """Segments of shared memory that these processes have mapped, and that have a name."""
    found = set()
    for pid in pids:
        with suppress(OSError):  # it has just ended
            names = re.findall(r" (/dev/shm/.+)", Path(f"/proc/{pid}/maps").read_text())
            found |= {Path(name) for name in names if not name.endswith("(deleted)")}
    return found


def left_behind(
    processes: dict[int, str], seconds: float, segments: Collection[Path] = ()
) -> list[str]:
    """Those that are still there, and their segments, after so many seconds at most."""
    deadline = time.monotonic() + seconds
    while True:
        now = {pid: args[:5] for pid, (_, args) in all_processes().items()}
        # by now another program may have the number; Ray's workers have titles that change
        left = [args for pid, args in processes.items() if now.get(pid) == args[:5]]
        left += [str(file) for file in segments if file.exists()]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)
