"""Verify or render a data set and write its splits, from its description in fedseg.data_prep."""

import sys
from pathlib import Path
from typing import Any

from fedseg import cli
from fedseg.commands.main import choose
from fedseg.data_prep.data_sets import DATA_SETS, owner_of
from fedseg.data_prep.description import resolve

WAYS = ("source", "download", "synthetic")  # options that need no root


def main() -> None:
    words = sys.argv[1:]
    titles = {name: data_set.title for name, data_set in DATA_SETS.items()}
    titles |= {m: "" for d in DATA_SETS.values() for m in d.members if m not in titles}
    name = choose("fedseg prepare DATA_SET", words, titles)
    data_set = owner_of(name)
    if name != data_set.name:  # one of several that a command prepares
        words = [data_set.name, "--dataset", name, *words[1:]]
    parser = cli.parser(data_set.purpose, data_set.help)
    parser.prog = f"fedseg prepare {data_set.name}"
    data_set.add_arguments(parser)
    options = vars(parser.parse_args(words[1:]))
    member, root = options.pop("dataset", data_set.name), options.pop("root")
    if not any(options.get(way) for way in WAYS):
        flags = [] if data_set.positional else ["--root"]
        flags += [data_set.flags[way] for way in WAYS if way in data_set.flags]
        fix = f"{data_set.fix}{', or give ' if flags else ''}{' or '.join(flags)}"
        cli.check_there([data_set.root_of(member, root)], fix)
    outcome = data_set.run(member, root, **options)
    for chart in outcome.charts:
        resolve(data_set.show)(*chart)
    print(outcome.closing)


def show_contact_sheet(dataset: Any, path: Path) -> None:
    """Write a picture of images under each corruption."""
    from fedseg.report.corruptions import draw_contact_sheet
    from fedseg.report.drawing import save_figure

    save_figure(draw_contact_sheet(dataset), path)
