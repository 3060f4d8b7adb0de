"""The small network of the run that tests share can be imported."""

import pytest


@pytest.fixture(autouse=True)
def network(small_config, monkeypatch):
    monkeypatch.syspath_prepend(str(small_config.parent))
