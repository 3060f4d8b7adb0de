"""Configs as objects, and the published hyper-parameters where they are at hand."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import yaml
from mmengine.config import Config

CONFIGS = Path(__file__).parents[2] / "configs"
PAPERS = Path(__file__).parents[3] / "shared" / "reference" / "hyperparameters.yaml"


@pytest.fixture(scope="session")
def load() -> Callable[[str], Config]:
    """Reads a config by its name; the same object every time, so do not change it."""
    return cache(lambda name: Config.fromfile(CONFIGS / f"{name}.py"))


@pytest.fixture(scope="session")
def papers() -> dict[str, dict[str, list[dict]]]:
    """Tables of hyper-parameters by paper and table."""
    if not PAPERS.is_file():
        pytest.skip("needs the papers' tables, ../shared/reference/hyperparameters.yaml")
    return yaml.safe_load(PAPERS.read_text())


@pytest.fixture(scope="session")
def comments() -> Callable[[str], str]:
    """The comments of a config and of every part that it inherits."""

    @cache
    def read(name: str) -> str:
        texts, queue = [], [CONFIGS / f"{name}.py"]
        for path in queue:
            texts.append(path.read_text())
            bases = re.findall(r'"([\w/]+\.py)"', texts[-1])
            queue += [path.parent / base for base in bases]
        return " ".join(re.findall(r"^# (.*)$", "\n".join(texts), re.MULTILINE))

    return read
