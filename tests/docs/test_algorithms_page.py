"""The facts on the page of algorithms are those of the program."""

import re

import algorithm_facts
import pytest
from doc_pages import ROOT

from fedseg.leaderboard.reference import read_published
from fedseg.registry import ALGORITHMS, LOCAL_LOSSES

PAGE = ROOT / "docs" / "algorithms.md"


def test_page_is_what_the_script_makes():
    text = PAGE.read_text(encoding="utf-8")
    assert algorithm_facts.refreshed(text) == text, "run python docs/site/algorithm_facts.py"


def test_every_method_has_a_section_and_a_row_of_options():
    listed = {*re.findall(r"^### (\w+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)}
    listed &= {*re.findall(r"^\| `(\w+)\(", PAGE.with_name("configuration.md").read_text(), re.M)}
    for registry in (ALGORITHMS, LOCAL_LOSSES):
        registry.import_from_location()
        classes = [c for c in registry.module_dict.values() if c.__module__.startswith("fedseg.")]
        names = {c.__name__ for c in classes} - {"LocalLoss"}
        assert names and names <= listed


@pytest.mark.parametrize(
    ("section", "algorithm", "averaging"),
    [("SCAFFOLD", "scaffold", None), ("FedASAM", "fedasam", None), ("SWA", "fedavg", "swa")],
)
def test_published_figures_are_those_of_the_records(section, algorithm, averaging):
    """Of one cell, found in the records themselves and not by way of the leaderboard."""
    values = [
        r.value
        for r in read_published()
        if (r.paper, r.dataset, r.model, r.metric) == ("ECCV22", "cifar10", "cnn", "accuracy")
        and (r.algorithm, r.averaging, r.augmentation) == (algorithm, averaging, None)
        and r.split == {"kind": "dirichlet", "alpha": 0.05}
        and r.clients_per_round == 5
        and r.variant is None
    ]
    text = PAGE.read_text(encoding="utf-8").split(f"### {section}\n")[1].split("### ")[0]
    row = re.search(r"\| CIFAR-10, alpha 0.05, CNN, 5 of.*?\| ([\d.]+) .*ECCV22", text)
    assert values and float(row[1]) in values


def test_a_wrong_figure_is_noticed():
    assert "99.99" not in algorithm_facts.refreshed("<!-- facts: SWA -->\n99.99\n<!-- end -->")
