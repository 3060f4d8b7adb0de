"""A long run on Ray, disturbed: ``python -m tests.campaign.soak --help``.

Workers and their loader processes are killed at random. Fails if the run ends, if a process's
memory, its open files, shared memory or the files of the run grow, or if a process or a segment of
shared memory that was theirs is left when it is stopped.
"""

import argparse
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import ray_processes
import toyseg

GROWTH = 1.1  # of the last third over the first
WARM_UP = 30.0  # seconds after the first round
ROUNDS = 10**6


def measured(pid: int, started: dict[int, str], folder: Path) -> dict[str, float]:
    """What must not grow: bytes of memory of the driver and of a worker, counts of other things."""
    workers = ray_processes.workers_of(pid)
    return {
        "memory of the driver": resident(pid),
        "memory of a worker": max((resident(worker) for worker in workers), default=0),
        "memory of Ray": sum(resident(one) for one in started if one not in workers),
        "processes": len(started),
        "open files of the driver": len(os.listdir(f"/proc/{pid}/fd")),
        "shared memory": resident(pid, "RssShmem:"),
        "segments of shared memory": len(ray_processes.segments_of([pid, *started])),
        "files of the run": sum(1 for _ in folder.rglob("*")),
    }


def resident(pid: int, kind: str = "RssAnon:") -> int:
    """Bytes of a process's own memory, or of shared one; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(kind))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="default: 30")
    parser.add_argument("--workers", type=int, default=2, help="default: 2")
    parser.add_argument("--seconds", type=float, default=20.0, help="between kills (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="of the kills")
    asked = parser.parse_args()
    rng, kills, seen = random.Random(asked.seed), 0, []
    started: dict[int, str] = {}
    segments: set[Path] = set()
    with tempfile.TemporaryDirectory() as scratch:
        changes = {
            "train_cfg": {"max_rounds": ROUNDS, "local_epochs": 5, "val_interval": 20},
            "train_dataloader": {"num_workers": 1},
            "algorithm": {"type": "FedDyn", "beta": 10.0},
        }
        config = toyseg.settings(Path(scratch), **toyseg.merge(toyseg.PLAIN, changes))
        path = toyseg.write_config(Path(scratch) / "toy.py", config)
        process = toyseg.start_cli(path, "--workers", str(asked.workers), "--quiet")
        lines = Path(config["work_dir"]) / "history.jsonl"
        while process.poll() is None and not lines.exists():  # until there is a round
            time.sleep(1)
        begin = time.monotonic()
        while process.poll() is None and time.monotonic() - begin < 60 * asked.minutes:
            time.sleep(rng.uniform(0.5, 1.5) * asked.seconds)
            now = ray_processes.started_by(process.pid)
            started |= now
            segments |= ray_processes.segments_of(now)
            if time.monotonic() - begin > WARM_UP and process.poll() is None:
                seen.append(measured(process.pid, now, Path(scratch)))
            victims = ray_processes.workers_of(process.pid, loaders=True)
            if victims:
                with suppress(ProcessLookupError):  # it has just ended by itself
                    os.kill(rng.choice(sorted(victims)), signal.SIGKILL)
                    kills += 1
        faults = []
        if process.poll() is None:
            started |= ray_processes.started_by(process.pid)
            os.killpg(process.pid, signal.SIGINT)
            process.wait(120)
            left = ray_processes.left_behind(started, 60, segments)
            faults = [f"left: {what}" for what in left]
        if process.returncode != 130:
            faults.append(f"ended with {process.returncode}: {process.communicate()[1][-2000:]}")
        history = toyseg.history(config) if lines.exists() else []
    restarts = sum(len(line.get("restarts", [])) for line in history)
    print(f"{len(history)} rounds, {kills} kills, {restarts} restarts")
    third = len(seen) // 3
    for name in seen[0] if third else ():
        parts = [[one[name] for one in part if one[name]] for part in (seen[:third], seen[-third:])]
        first, last = (statistics.median(part or [0]) for part in parts)  # 0: none has begun yet
        print(f"{name}: {first:,.0f}, at last {last:,.0f}")
        if last > GROWTH * first:
            faults.append(f"{name} grows")
    print(*faults, "FAILED" if faults else "passed", sep="\n")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
