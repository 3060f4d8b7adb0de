"""Which cases there are: files of a template, a damage of one of them, a command that reads it."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import hypothesis
from hypothesis import strategies as st

from tests.campaign import damage as d
from tests.campaign.damage import Damage, Damages
from tests.campaign.sound import COMMANDS, LAST, config_of


@dataclass(frozen=True)
class Case:
    """One damaged input.

    Attributes:
        id: kind and number, the same for the same seed.
        command: name of a command. file: in its template.
    """

    id: str
    command: str
    file: str
    damage: Damage

    def __str__(self) -> str:
        return f"{self.id}: {self.command}: {self.file}: {self.damage.what}"


PLACES = d.PLACES | d.MISSING


def _config(path: Path) -> Damages:
    values = d.config_values(config_of(path))
    return values | values | values | d.config_texts(path) | PLACES


def _recorded(path: Path) -> Damages:
    """Of what a run has recorded of its config."""
    return d.STRANGERS | d.CUTS | d.json_values(path) | d.json_shapes(path)


def _payloads(*needed: str) -> Callable[[Path], Damages]:
    return partial(d.payloads, needed=needed)


# without them a file is as one without what a hook adds, or one that vouches for less
OPTIONAL = ("setting", "methods", "results_sha256", "history_sha256")
OPTIONAL += ("config_json_sha256", "environments", "initial_sha256")
_results = partial(d.json_values, optional=OPTIONAL, vouched=True)
_lines = partial(d.json_values, vouched=True)
_names = partial(d.json_texts, key="name")
CARRIED = ("state_dict", "round", "server", "hooks", "schedulers", "stores", "meta")
CHECKPOINT = (d.BYTES, PLACES, d.PICKLES)
RESULTS = (_results, _results, _names, d.json_shapes, d.CUTS, d.FOREIGN, PLACES)
JSON = (d.json_values, d.json_values, d.json_shapes, d.CUTS, d.FOREIGN, PLACES)
ARRAYS = (d.BYTES, d.ARRAYS, d.SWAPPED, PLACES)
SPLITS = (*JSON, d.json_entries)
HISTORY = (d.json_lines, d.json_lines, _lines, d.BYTES, PLACES)
PHOTOS, LABELS = "data/IDDAsmall/*/RGB/*.jpg", "data/IDDAsmall/*/Semantic/*.png"

Source = tuple[str, str, tuple[Damages | Callable[[Path], Damages], ...]]
KINDS: dict[str, tuple[int, list[Source]]] = {
    "config": (
        400,
        [
            ("train", "config.py", (_config,)),
            ("train with a split file", "fixed.py", (_config,)),
            ("train on streets", "config.py", (_config,)),
        ],
    ),
    "split": (
        250,
        [
            ("train on streets", "data/splits/*/*.json", SPLITS),
            ("train with a split file", "clients.json", SPLITS),
            ("show splits", "clients.json", JSON),
            ("prepare released", "files/**/*.json", SPLITS),
        ],
    ),
    "image": (
        250,
        [  # JPEG has no checksum, and a folder no list of its files: not everything shows
            ("train on streets", PHOTOS, (d.CUTS, d.FOREIGN, PLACES, d.PICTURES)),
            ("train on streets", LABELS, (d.BYTES, PLACES, d.PICTURES, d.MAPS)),
            ("train", "data/*.npy", ARRAYS),
            ("train", "data/dataset.json", JSON),
        ],
    ),
    "own": (
        250,
        [
            ("prepare own", "root/images/*", (d.CUTS, d.FOREIGN, d.PLACES, d.PICTURES, d.lost)),
            ("prepare own", "root/labels/*", (d.BYTES, d.PLACES, d.PICTURES, d.MAPS, d.lost)),
            ("prepare own", "root/classes.txt", (d.CLASSES, PLACES, d.FOREIGN)),
        ],
    ),
    "archive": (
        200,
        [
            ("prepare npz", "npz/*.npz", (d.BYTES, PLACES, d.ARRAYS, d.PICKLES)),
        ],
    ),
    "checkpoint": (
        250,
        [
            ("resume", "run/checkpoints/round_000002.pth", (_payloads(*CARRIED),)),
            ("resume", "run/checkpoints/*", CHECKPOINT),
            ("resume", "run/state/**/*", CHECKPOINT),
            ("test", LAST, (*CHECKPOINT, _payloads("averaged_state_dict"))),
            ("load", LAST, (*CHECKPOINT, _payloads("state_dict"))),
            ("verify", LAST, CHECKPOINT),
            ("verify", LAST, (_payloads("state_dict", "averaged_state_dict"),)),
        ],
    ),
    "history": (
        150,
        [
            ("resume", "run/history.jsonl", HISTORY),
            ("verify", "run/history.jsonl", HISTORY),
            ("compare", "run/history.jsonl", HISTORY),
        ],
    ),
    "result": (
        250,
        [
            ("board", "run/results.json", RESULTS),
            ("compare", "run/results.json", RESULTS),
            ("verify", "run/results.json", (_results, d.BYTES, d.json_shapes)),
            ("verify", "run/config.json", (_recorded,)),
        ],
    ),
}
"""Of each kind how many cases; for each of its commands the files, and what happens to them."""


def draw(
    kind: str, seed: int, template: Callable[[str], Path], count: int | None = None
) -> list[Case]:
    """The cases of a kind, the same for the same seed and count, no two of them alike.

    Args:
        template: makes a template; returns its folder.
    """
    whole, sources = KINDS[kind]
    found: dict[tuple[str, str, str], Case] = {}

    @hypothesis.seed(seed + zlib.crc32(kind.encode()))
    @hypothesis.settings(
        max_examples=count or whole,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(st.one_of([_of(template, *source) for source in sources]))
    def collect(drawn: tuple[str, str, Damage]) -> None:
        command, file, fault = drawn
        hypothesis.assume((command, file, fault.what) not in found)
        found[command, file, fault.what] = Case(f"{kind}-{len(found)}", *drawn)

    collect()
    return list(found.values())


def _of(
    template: Callable[[str], Path],
    command: str,
    pattern: str,
    damages: tuple[Damages | Callable[[Path], Damages], ...],
) -> st.SearchStrategy[tuple[str, str, Damage]]:
    """Damages of the files that match in a command's template; some depend on the file."""
    root = template(COMMANDS[command].template)
    files = sorted(str(path.relative_to(root)) for path in root.glob(pattern) if path.is_file())
    assert files, f"{command}: no {pattern}"

    def of_file(file: str) -> st.SearchStrategy[tuple[str, str, Damage]]:
        made = [one(root / file) if callable(one) else one for one in damages]
        return st.tuples(st.just(command), st.just(file), st.one_of(made))

    return st.sampled_from(files).flatmap(of_file)
