"""The facts on the page of algorithms are those of the program."""

import importlib.util
import re
import sys

import pytest
from doc_pages import ROOT

from fedseg.registry import ALGORITHMS, LOCAL_LOSSES

PAGE = ROOT / "docs" / "algorithms.md"


@pytest.fixture(scope="module")
def facts():
    spec = importlib.util.spec_from_file_location(
        "algorithm_facts", ROOT / "docs" / "site" / "algorithm_facts.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["algorithm_facts"] = module  # its dataclasses look for it there
    spec.loader.exec_module(module)
    return module


def test_page_is_what_the_script_makes(facts):
    text = PAGE.read_text(encoding="utf-8")
    assert facts.refreshed(text) == text, "run python docs/site/algorithm_facts.py"


def test_every_method_has_a_section():
    text = PAGE.read_text(encoding="utf-8")
    for registry in (ALGORITHMS, LOCAL_LOSSES):
        registry.import_from_location()
        classes = [c for c in registry.module_dict.values() if c.__module__.startswith("fedseg.")]
        names = {c.__name__ for c in classes} - {"LocalLoss"}
        assert names and names <= set(re.findall(r"^### (\w+)$", text, re.MULTILINE))


def test_published_figures_are_on_the_page(facts):
    """One cell of each kind, by hand: SCAFFOLD's in two papers, SWA's."""
    text = PAGE.read_text(encoding="utf-8")
    section = text.split("### SWA\n")[1].split("### ")[0]
    assert "ECCV22 Table" in section and "69.24" in section
    scaffold = text.split("### SCAFFOLD\n")[1].split("### ")[0]
    assert "WIMA Table 2" in scaffold and "FedGloSS Table 3" in scaffold


def test_a_wrong_figure_is_noticed(facts):
    text = "<!-- facts: SWA -->\n99.99\n<!-- end -->"
    assert "99.99" not in facts.refreshed(text)
