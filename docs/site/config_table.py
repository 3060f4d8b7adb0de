"""Writes the tables of configs/README.md: ``python docs/site/config_table.py``.

What goes with what is asked of the composition itself, what is published of the package's table of
hyper-parameters. A test compares the page with what is made here.
"""

import functools
import json
import sys
from importlib import resources
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from fedseg.errors import ConfigError  # noqa: E402
from fedseg.runner import compose  # noqa: E402

PAGE = ROOT / "configs" / "README.md"
MARK = "<!-- what follows is written by docs/site/config_table.py -->\n"
MARKS = {
    "published": "P",
    "grid": "G",
    "ours": "o",
    "nothing": "",
}
GROUPS = (
    ("CIFAR and MNIST", ("cifar", "mnist")),
    ("Landmarks, IDDA, Cityscapes, CamVid, demos", ("landmarks", "idda", "city", "camvid", "demo")),
)


@functools.cache
def published() -> tuple[dict, ...]:
    """The records of published hyper-parameters."""
    file = resources.files("fedseg.leaderboard.reference") / "hyperparameters.json"
    return tuple(json.loads(file.read_text(encoding="utf-8"))["records"])


def source(setting: str, methods: list[str]) -> str:
    """Whose values a setting has with methods."""
    try:
        compose.compose(compose.setting_file(setting), methods)
    except ConfigError:
        return "nothing"
    wanted = [] if methods == ["fedavg"] else methods
    fitting = [r for r in published() if setting in r["settings"] and r["methods"] == wanted]
    if any("grid" in record for record in fitting):
        return "grid"
    return "published" if fitting else "ours"


def method_names(settings: list[str]) -> list[str]:
    """All methods, in the order of an experiment's name."""
    parts = {}
    for setting in settings:
        composition = compose.Composition(compose.setting_file(setting))
        for name, path in composition.known.items():
            parts.setdefault(name, composition.part(path))
    return sorted(parts, key=lambda name: parts[name].rank)


def table(settings: list[str], methods: list[str]) -> str:
    """One line a method, one column for the settings in which all methods are alike."""
    columns = {s: tuple(MARKS[source(s, [m])] for m in methods) for s in settings}
    alike: dict[tuple, list[str]] = {}
    for setting, column in columns.items():
        alike.setdefault((setting.split("_")[0], column), []).append(setting)
    shown = [m for number, m in enumerate(methods) if any(c[number] for c in columns.values())]
    lines = [
        f"| | {' | '.join('<br>'.join(names) for names in alike.values())} |",
        f"|---{'|---' * len(alike)}|",
    ]
    for method in shown:
        cells = [column[methods.index(method)] for _, column in alike]
        lines.append(f"| `{method}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def tables() -> str:
    """What stands below the mark."""
    read = compose.read_config
    compose.read_config = functools.cache(read)
    try:
        names = sorted(path.stem for path in (ROOT / "configs" / "settings").glob("*.py"))
        methods = method_names(names)
        parts = [
            f"## {title}\n\n{table([n for n in names if n.startswith(starts)], methods)}\n"
            for title, starts in GROUPS
        ]
    finally:
        compose.read_config = read
    stems = sorted(path.stem for path in (ROOT / "configs").glob("*.py"))
    groups = [list(group) for _, group in groupby(stems, key=lambda stem: stem.split("_")[0])]
    named = "\n".join(f"- {', '.join(f'`{name}`' for name in group)}" for group in groups)
    return "\n".join([*parts, f"## Named experiments\n\n{named}\n"])


def page() -> str:
    """The page with its tables made anew."""
    above = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    return f"{above}{MARK}\n{tables()}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
