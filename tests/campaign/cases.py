"""Which cases there are: files of a template, a damage of one of them, a command that reads it."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import hypothesis
from hypothesis import strategies as st

from tests.campaign import damage
from tests.campaign.damage import Damage, Damages
from tests.campaign.sound import COMMANDS, config_of


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


Templates = Callable[[str], Path]
Source = st.SearchStrategy[tuple[str, str, Damage]]


def _of(
    template: Templates, command: str, pattern: str, *damages: Damages | Callable[[Path], Damages]
) -> Source:
    """Damages of the files that match in a command's template; some depend on the file."""
    root = template(COMMANDS[command].template)
    files = sorted(str(path.relative_to(root)) for path in root.glob(pattern) if path.is_file())
    assert files, f"{command}: no {pattern}"

    def of_file(file: str) -> Source:
        made = [d(root / file) if callable(d) else d for d in damages]
        return st.tuples(st.just(command), st.just(file), st.one_of(made))

    return st.sampled_from(files).flatmap(of_file)


def _configs(template: Templates) -> list[Source]:
    digits, streets = (template(name) for name in ("digits", "streets"))
    found = []
    for command, root, name in (
        ("train", digits, "config.py"),
        ("train", digits, "config.py"),
        ("train on streets", streets, "config.py"),
        ("train with a split file", digits, "fixed.py"),
    ):
        values = damage.config_values(config_of(root, name))
        found.append(_of(template, command, name, values))
    texts = damage.config_texts((digits / "config.py").read_text())
    found.append(_of(template, "train", "config.py", texts, damage.PLACES))
    return found


def _splits(template: Templates) -> list[Source]:
    anything = (damage.json_values, damage.json_shapes, damage.CUTS, damage.FOREIGN, damage.PLACES)
    return [
        _of(template, "train on streets", "data/splits/*/*.json", *anything),
        _of(template, "train with a split file", "clients.json", *anything),
        _of(template, "show splits", "clients.json", *anything),
        _of(template, "prepare released", "files/**/*.json", *anything),
    ]


def _images(template: Templates) -> list[Source]:
    cuts = (damage.CUTS, damage.FOREIGN, damage.PLACES)
    photos, labels = "data/IDDAsmall/*/RGB/*.jpg", "data/IDDAsmall/*/Semantic/*.png"
    arrays = (damage.BYTES, damage.ARRAYS, damage.SWAPPED, damage.PLACES)
    index = (damage.json_values, damage.json_shapes, damage.PLACES)
    return [
        _of(template, "train on streets", photos, *cuts, damage.PICTURES, damage.HALVED),
        _of(template, "train on streets", labels, damage.BYTES, damage.PLACES, damage.PICTURES),
        _of(template, "train", "data/*.npy", *arrays),
        _of(template, "train", "data/dataset.json", *index),
        _of(template, "prepare png", "png/*/*/*.png", damage.BYTES, damage.PLACES, damage.PICTURES),
    ]


def _archives(template: Templates) -> list[Source]:
    files = (damage.BYTES, damage.PLACES)
    return [
        _of(template, "prepare cifar", "cifar.tar.gz", *files, damage.MEMBERS, damage.PICKLES),
        _of(template, "prepare released", "a.tar.gz", *files, damage.MEMBERS),
        _of(template, "prepare npz", "npz/*.npz", *files, damage.ARRAYS, damage.PICKLES),
        _of(template, "prepare mnist", "mnist/*.gz", *files),
    ]


def _checkpoints(template: Templates) -> list[Source]:
    def of(*top: str) -> Callable[[Path], Damages]:
        return lambda path: damage.payloads(path, top)

    files = (damage.BYTES, damage.PLACES, damage.PICKLES)
    last = "run/checkpoints/round_000004.pth"
    weights = of("state_dict", "averaged_state_dict")
    carried = of("state_dict", "round", "server_state", "hooks", "schedulers", "stores", "meta")
    return [
        _of(template, "resume", "run/checkpoints/round_000002.pth", *files, carried, carried),
        _of(template, "resume", "run/checkpoints/*", *files),
        _of(template, "resume", "run/state/**/*", *files),
        _of(template, "test", last, *files, of("averaged_state_dict")),
        _of(template, "load", last, *files, of("state_dict")),
        _of(template, "verify", "run/checkpoints/*4.pth*", *files),
        _of(template, "verify", last, weights),
    ]


def _histories(template: Templates) -> list[Source]:
    anything = (damage.json_lines, damage.json_lines, damage.json_values)
    anything += (damage.BYTES, damage.PLACES)
    return [
        _of(template, "resume", "run/history.jsonl", *anything),
        _of(template, "verify", "run/history.jsonl", *anything),
        _of(template, "compare", "run/history.jsonl", damage.json_lines, damage.FOREIGN),
    ]


# without them it is as a file of an earlier version, or one without what a hook adds
OPTIONAL = ("setting", "methods", "protocol", "curves", "options", "generated", "steps", "style")


def _results(template: Templates) -> list[Source]:
    def values(path: Path) -> Damages:
        return damage.json_values(path, OPTIONAL)

    def names(path: Path) -> Damages:
        return damage.json_texts(path, "name")

    files = (values, values, names, damage.json_shapes, damage.CUTS, damage.FOREIGN, damage.PLACES)
    hostile = st.sampled_from(hostile_configs())
    return [
        _of(template, "board", "run/results.json", *files),
        _of(template, "compare", "run/results.json", *files),
        _of(template, "verify", "run/results.json", values, damage.BYTES, damage.json_shapes),
        _of(template, "verify", "run/config.py", hostile),
    ]


def hostile_configs() -> list[Damage]:
    """Config copies of a stranger's run that would run code when they are loaded."""
    payload = f"import os; os.makedirs({damage.CANARY!r}, exist_ok=True)\n"

    def python(path: Path) -> None:
        path.write_text(payload + path.read_text())

    def module(path: Path) -> None:
        (path.parent / "beside.py").write_text(payload)
        path.write_text(path.read_text() + "\ncustom_imports = dict(imports=['beside'])\n")

    def dotted(path: Path) -> None:
        found = f"dict(type='os.makedirs', name={damage.CANARY!r}, exist_ok=True)"
        path.write_text(f"{path.read_text()}\nmodel = {found}\nval_evaluator = {found}\n")

    def base(path: Path) -> None:
        text = f"x: !!python/object/apply:os.mkdir [{damage.CANARY}]\n"
        (path.parent / "base.yaml").write_text(text)
        path.write_text(f"_base_ = 'base.yaml'\n{path.read_text()}")

    return [Damage(f"hostile: {f.__name__}", f, valid=True) for f in (python, module, dotted, base)]


KINDS: dict[str, tuple[int, Callable[[Templates], list[Source]]]] = {
    "config": (400, _configs),
    "split": (250, _splits),
    "image": (250, _images),
    "archive": (200, _archives),
    "checkpoint": (250, _checkpoints),
    "history": (150, _histories),
    "result": (250, _results),
}
"""Of each kind how many cases, and where they come from."""


def draw(kind: str, seed: int, template: Templates) -> list[Case]:
    """The cases of a kind, the same for the same seed."""
    count, sources = KINDS[kind]
    found: dict[tuple[str, str, str], Case] = {}

    @hypothesis.seed(seed + zlib.crc32(kind.encode()))
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(st.one_of(sources(template)))
    def collect(drawn: tuple[str, str, Damage]) -> None:
        command, file, fault = drawn
        hypothesis.assume((command, file, fault.what) not in found)
        found[command, file, fault.what] = Case(f"{kind}-{len(found)}", *drawn)

    collect()
    return list(found.values())
