"""Settings and methods as objects."""

import copy
import functools
from collections.abc import Callable

import pytest
from config_components import SETTINGS
from mmengine.config import Config

from fedseg.config import compose as compose_module
from fedseg.config.compose import Composition, compose


@pytest.fixture(scope="module")
def composed(configs_read_once) -> Callable[..., Config]:
    """An experiment by its setting and methods, which no test changes."""

    @functools.cache
    def load(setting: str, *methods: str) -> Config:
        return compose(compose_module.setting_file(setting), methods)

    return load


@pytest.fixture(scope="module")
def load(composed) -> Callable[..., Config]:
    """An experiment by its setting and methods; the test may change it."""
    return lambda *names: copy.deepcopy(composed(*names))


@pytest.fixture(scope="module")
def slots(configs_read_once) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for setting in SETTINGS:
        composition = Composition(compose_module.setting_file(setting))
        for name, path in composition.method_files.items():
            part = compose_module.read_method(path)
            assert found.setdefault(name, part.slots) == part.slots, path
    return found
