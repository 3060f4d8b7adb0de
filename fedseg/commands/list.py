"""Settings, methods and components: fedseg list [KIND] (--help lists the options)."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fedseg import cli

if TYPE_CHECKING:
    from fedseg.config.methods import Composition

Row = tuple[str, str, str]

KINDS = ("settings", "experiments", "methods", "algorithms", "datasets", "models")
# where a method says what it is
COMPONENTS = ("algorithm", "local_loss", "averaging", "batchnorm", "optim_wrapper")
MARKS = {"published": "published", "grid": "from a published grid", "ours": "ours"}


def main() -> None:
    parser = cli.parser(
        "List settings, experiments, methods, algorithms, data sets or models, a line "
        "each; of a setting, its methods and where their values come from.",
        "examples:\n  fedseg list\n  fedseg list methods\n  fedseg list idda_rainy\n",
    )
    text = f"{', '.join(KINDS)}, or the name of a setting (default: all kinds)"
    parser.add_argument("kind", nargs="?", metavar="KIND", help=text)
    kind = parser.parse_args().kind
    from fedseg.config.methods import Composition, setting_file
    from fedseg.names import by_case

    chosen = by_case(kind, KINDS) if kind else None
    if kind and chosen is None:
        show(f"methods of {kind}", setting_rows(Composition(setting_file(kind))))
        return
    described = chosen is not None  # what a class does is in its documentation: it is imported
    rows = {"settings": settings(), "experiments": experiments(), "methods": methods(described)}
    for name in KINDS if chosen is None else [chosen]:
        show(name, rows[name] if name in rows else classes(name, described))


def show(title: str, rows: Iterator[Row]) -> None:
    """Print rows in columns."""
    rows = list(rows)
    first, second = (max((len(row[i]) for row in rows), default=0) for i in (0, 1))
    print(f"\n{title}")
    for name, what, more in rows:
        print(f"  {name:<{first}}  {what:<{second}}  {more}".rstrip())


def settings() -> Iterator[Row]:
    """Each setting: data, network and rounds; for how many methods its values are published."""
    from fedseg.config.layers import CONFIGS
    from fedseg.config.methods import compose
    from fedseg.leaderboard.reference import hyperparameters, source_of_values

    records = hyperparameters()
    for path in sorted((CONFIGS / "settings").glob("*.py")):
        config = compose(path)
        data = config.train_dataloader.dataset.type.removesuffix("Dataset")
        network = config.model.get("network", config.model).type
        rounds = f"{config.train_cfg.max_rounds:,} rounds"
        named = {tuple(r["methods"]) for r in records if path.stem in r["settings"]}
        published = [m for m in named if source_of_values(path.stem, m) == "published"]
        yield path.stem, f"{data}, {network}, {rounds}", _published(len(published), "method")


def experiments() -> Iterator[Row]:
    """Each named experiment, with its setting."""
    from fedseg.config.layers import CONFIGS
    from fedseg.config.methods import Composition

    for path in sorted(CONFIGS.glob("*.py")):
        composition = Composition(path)
        yield path.stem, composition.title, " ".join(composition.methods)


def methods(described: bool) -> Iterator[Row]:
    """Each method: what it decides, what it is, for how many settings its values are published."""
    from fedseg.config.layers import CONFIGS
    from fedseg.config.methods import Composition, read_method
    from fedseg.leaderboard.reference import hyperparameters, source_of_values

    composition = Composition(CONFIGS / "settings" / "idda_rainy.py")
    known = {path.stem: path for path in (CONFIGS / "methods").rglob("*.py")}
    for name in sorted(known):
        if "+" in name:
            continue
        method = read_method(composition.files.get(name, known[name]))
        wanted = [] if name == "fedavg" else [name]
        named = {s for r in hyperparameters() if r["methods"] == wanted for s in r["settings"]}
        published = [s for s in named if source_of_values(s, [name]) == "published"]
        line = _line(method.layer.values) if described else ""
        more = "; ".join(filter(None, (line, _published(len(published), "setting"))))
        yield name, ", ".join(slot.replace("_", " ") for slot in method.slots), more


def setting_rows(composition: "Composition") -> Iterator[Row]:
    """Each method that makes sense in a setting, and where its values come from."""
    from fedseg.config.methods import compose, read_method
    from fedseg.errors import ConfigError
    from fedseg.leaderboard.reference import source_of_values

    for name, path in composition.known.items():
        try:
            compose(composition.path, [name])
        except ConfigError:
            continue
        slots = ", ".join(slot.replace("_", " ") for slot in read_method(path).slots)
        yield name, slots, MARKS[source_of_values(composition.title, [name])]


def classes(kind: str, described: bool) -> Iterator[Row]:
    """Each registered class, and the first line of its documentation."""
    from fedseg.registry import ALGORITHMS, DATASETS, MODELS

    registry = {"algorithms": ALGORITHMS, "datasets": DATASETS, "models": MODELS}[kind]
    for name, module in sorted(registry.modules.items()):
        if not module.endswith(("losses", "preprocessor")):  # of models
            yield name, _plain(registry.get(name)) if described else "", ""


def _line(values: Mapping[str, Any]) -> str:
    """The first line of the documentation of a method's component."""
    from fedseg import registry
    from fedseg.config.components import PLACES

    for key in COMPONENTS:
        kind = (values.get(key) or {}).get("type")
        if kind is not None:
            return _plain(getattr(registry, PLACES[key].registry).get(kind)).rstrip(".")
    return ""


def _plain(cls: type) -> str:
    """The first line of a class's documentation without marks of reStructuredText."""
    line = (cls.__doc__ or "").partition("\n")[0]
    return re.sub(r":\w+:`~?([^`]*)`|``([^`]*)``", r"\1\2", line)


def _published(count: int, what: str) -> str:
    return f"values published for {count} {what}{'s' * (count > 1)}" if count else ""
