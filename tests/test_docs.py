"""The documentation is true: keys, names and links exist. tests/docs runs its examples."""

import re

import pytest
from doc_pages import PAGES, ROOT

from fedseg.config.check import KEYS
from fedseg.config.compose import SLOTS
from fedseg.config.needs import NEEDS
from fedseg.registry import BATCH_TRANSFORMS, CLIENT_DATA, EVALUATION_SETS, PARTITIONS


def test_every_config_key_is_documented():
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`(\w+)`", page))
    assert documented >= set(KEYS)


def test_every_loader_transform_and_partition_is_documented():
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    for registry in (CLIENT_DATA, EVALUATION_SETS, BATCH_TRANSFORMS, PARTITIONS):
        registry.import_from_location()
        own = {n for n, c in registry.module_dict.items() if c.__module__.startswith("fedseg.")}
        assert own
        assert not own - set(re.findall(r"`(\w+)", page))


def test_the_slots_of_methods_are_documented():
    page = (ROOT / "docs" / "own_algorithm.md").read_text(encoding="utf-8")
    sentence = page.split("The slots are")[1].split(";")[0]
    assert set(re.findall(r"`(\w+)`", sentence)) == set(SLOTS)
    table = page.split("| `needs` | what |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == list(NEEDS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_paths_exist(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
    for path in re.findall(r"(?:tools|configs)/\w+\.py", text):
        assert (ROOT / path).exists(), f"{page.name} names {path}"
