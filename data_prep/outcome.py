"""What the preparation of a data set returns, and the command that trains on it."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedseg import cli


@dataclass(frozen=True)
class Outcome:
    """A prepared data set."""

    root: Path  # its folder
    splits: Sequence[Path] = ()  # files or folders that were written
    charts: Sequence[tuple[Any, ...]] = ()  # arguments of report.splits_output.show_split
    closing: str = ""  # printed at the end: what to do next


def fewer_clients(usual: int, clients: int) -> list[str]:
    """Write the option of a config for fewer clients than it draws in a round."""
    return [f"client_sampler.clients_per_round={clients}"] if clients < usual else []


def next_command(experiment: str, usual: Path, root: Path, options: Sequence[str] = ()) -> str:
    """Write the command that trains on what was prepared, with these options of the config.

    Args:
        usual: the data root that the experiment names; another ``root`` becomes an option.
    """
    options = [*options] if root == usual else [f"data_root={root}", *options]
    command = f"{cli.program()} train {experiment} --dry-run"
    if options:
        command += f" --cfg-options {shlex.join(options)}"
    return f"Next: {command}"


def usual_root(dataset: str) -> Path:
    """Name the folder where a data set is expected: both of Mapillary's label sets share one."""
    return Path("data", dataset.removesuffix("_a").removesuffix("_b"))
