"""Settings, methods and components: fedseg list [KIND] (--help lists the options)."""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from fedseg import cli

if TYPE_CHECKING:
    from fedseg.config.compose import Composition

Row = tuple[str, str, str]

KINDS = ("settings", "experiments", "methods", "algorithms", "datasets", "models")
SLOTS = ("algorithm", "local_optimizer", "average", "batchnorm", "regularizer", "loss", "personal")
SLOTS += ("adapter", "augmentation", "style", "network", "compression", "privacy", "robust")
SLOTS += ("attack",)


def main() -> None:
    parser = cli.parser(
        "List settings, experiments, methods, algorithms, data sets or models; or the methods of "
        "a setting and the sources of their values.",
        "examples:\n  fedseg list\n  fedseg list methods\n  fedseg list idda_rainy\n",
    )
    text = f"{', '.join(KINDS)}, or the name of a setting (default: a summary)"
    parser.add_argument("kind", nargs="?", metavar="KIND", help=text)
    kind = parser.parse_args().kind
    from fedseg.config.compose import Composition, setting_file

    if kind is None:
        summary()
    elif kind not in KINDS:
        show(f"methods of {kind}", setting_rows(Composition(setting_file(kind))))
    elif kind == "methods":
        for slot, rows in groupby(methods(), lambda row: row[0]):
            show(slot.replace("_", " "), (row[1:] for row in rows))
    else:
        rows = {"settings": settings, "experiments": experiments}
        show(kind, rows[kind]() if kind in rows else classes(kind))


def show(title: str, rows: Iterator[Row]) -> None:
    """Print rows in columns."""
    rows = list(rows)
    first, second = (max((len(row[i]) for row in rows), default=0) for i in (0, 1))
    print(f"\n{title}")
    for name, what, more in rows:
        print(f"  {name:<{first}}  {what:<{second}}  {more}".rstrip())


def summary() -> None:
    """Print how many there are of each kind, with examples."""
    from fedseg.config.descriptions import described_methods
    from fedseg.config.layers import CONFIGS

    names = {
        "settings": [path.stem for path in (CONFIGS / "settings").glob("*.py")],
        "experiments": [path.stem for path in CONFIGS.glob("*.py")],
        "methods": list(described_methods()),
    }
    names |= {kind: registered(kind) for kind in ("algorithms", "datasets", "models")}
    examples = {
        "settings": "cifar10_a005, cityscapes_heterogeneous, idda_rainy, demo_shapes",
        "experiments": "cifar10_a005_fedasam_swa, idda_rainy_fedasam_swa",
        "methods": "fedavg, scaffold, fedasam, swa, silobn",
    }
    for kind, known in names.items():
        print(f"{len(known):>4} {kind:<12} {examples.get(kind, ', '.join(known[:4]))}, ...")
    print(
        "\nfedseg list KIND lists one kind, fedseg list SETTING the methods of a setting.\n"
        "To train a setting with methods: fedseg train SETTING --with METHOD METHOD ..."
    )


def settings() -> Iterator[Row]:
    """Each setting: data, network and rounds."""
    from fedseg.config.compose import compose
    from fedseg.config.layers import CONFIGS

    for path in sorted((CONFIGS / "settings").glob("*.py")):
        config = compose(path)
        data = config.train_dataloader.dataset.type.removesuffix("Dataset")
        network = config.model.get("network", config.model).type
        rounds = f"{config.train_cfg.max_rounds:,} rounds"
        yield path.stem, data, f"{network}, {rounds}"


def experiments() -> Iterator[Row]:
    """Each named experiment, with its setting."""
    from fedseg.config.compose import Composition
    from fedseg.config.layers import CONFIGS

    for path in sorted(CONFIGS.glob("*.py")):
        composition = Composition(path)
        yield path.stem, composition.setting_name, " ".join(composition.method_names)


def methods() -> Iterator[tuple[str, str, str, str]]:
    """Each method with its first slot: what it does, and its paper."""
    from fedseg.config.compose import read_method
    from fedseg.config.descriptions import described_methods, read_description

    rows = []
    for name, path in described_methods().items():
        description = read_description(path)
        slot = read_method(path).slots[0]
        rows.append((slot, name, description.sentence, description.paper))
    order = [*SLOTS, *sorted({row[0] for row in rows} - set(SLOTS))]
    yield from sorted(rows, key=lambda row: (order.index(row[0]), row[1]))


def setting_rows(composition: "Composition") -> Iterator[Row]:
    """Each method that makes sense in a setting, and where its values come from."""
    from fedseg.config.compose import compose, read_method
    from fedseg.config.descriptions import read_source
    from fedseg.errors import ConfigError

    for name, path in composition.method_files.items():
        try:
            compose(composition.path, [name])
        except ConfigError:
            continue
        method = read_method(path)
        slots = ", ".join(slot.replace("_", " ") for slot in method.slots)
        rows = method.matching_rows(composition.setting_names, [name])
        yield name, slots, read_source(path, rows[-1].key if rows else None)


def registered(kind: str) -> list[str]:
    """Names of the suite's algorithms, data sets or models."""
    from fedseg import registry

    modules = getattr(registry, kind.upper()).modules
    return sorted(n for n, m in modules.items() if not m.endswith(("losses", "preprocessor")))


def classes(kind: str) -> Iterator[Row]:
    """Each registered class, and the first line of its documentation."""
    from fedseg import registry

    for name in registered(kind):
        line = (getattr(registry, kind.upper()).get(name).__doc__ or "").partition("\n")[0]
        yield name, re.sub(r":\w+:`~?([^`]*)`|``([^`]*)``", r"\1\2", line), ""
