"""The processes of a run on Ray, and what they leave behind."""

import re
import subprocess
import time
from pathlib import Path


def started_by(pid: int) -> dict[int, str]:
    """Processes below one, from what it started on, and their command lines."""
    options = {"capture_output": True, "text": True, "check": True}
    listed = subprocess.run(["ps", "-eww", "-o", "pid=,ppid=,args="], **options).stdout
    lines = [line.split(maxsplit=2) for line in listed.splitlines()]
    found, above = {}, {str(pid)}
    while above:
        below = {own: args for own, parent, *args in lines if parent in above}
        found |= {int(own): " ".join(args) for own, args in below.items()}
        above = set(below)
    return found


def workers_of(pid: int) -> list[int]:
    """The workers of a run that have begun to work."""
    return [own for own, args in started_by(pid).items() if args.startswith("ray::Worker")]


def folders_of(processes: dict[int, str]) -> set[Path]:
    """Ray's folders that processes were started with."""
    return {Path(name) for name in re.findall(r"/tmp/fedseg-ray-\w+", " ".join(processes.values()))}


def left_behind(processes: dict[int, str], seconds: float) -> list[str]:
    """Those that are still there, and their folders, after so many seconds at most."""
    folders, deadline = folders_of(processes), time.monotonic() + seconds
    while True:
        left = [args for pid, args in processes.items() if Path(f"/proc/{pid}").exists()]
        left += [str(folder) for folder in folders if folder.exists()]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)
