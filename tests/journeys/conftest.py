"""What a user has: an environment with fedseg, an empty folder, and a terminal in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from environment import Environment, make_environment
from terminal import Forks, Processes, Programs, Terminal


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "install everything in an empty environment, and run every command as a process"
    parser.addoption("--new-user", action="store_true", help=text)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the walks of further pages to ``make new-user``; test_all_pages.py reads them."""
    if config.getoption("--new-user", default=False):
        return
    walks = [item for item in items if item.get_closest_marker("new_user")]
    config.hook.pytest_deselected(items=walks)
    items[:] = [item for item in items if item not in walks]


@pytest.fixture(scope="session")
def is_new_user(request: pytest.FixtureRequest) -> bool:
    return request.config.getoption("--new-user", default=False)


@pytest.fixture(scope="session")
def environment(
    is_new_user: bool, tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Environment:
    """The environment that all processes of the tests share."""
    folder = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        folder = folder.parent
    folder = folder / "environment"
    folder.mkdir(exist_ok=True)
    return make_environment(folder, fresh=is_new_user)


@pytest.fixture(scope="session")
def programs(environment: Environment, is_new_user: bool) -> Iterator[Programs]:
    if is_new_user:
        yield Processes(environment)
        return
    forks = Forks(environment)
    yield forks
    forks.close()


@pytest.fixture
def terminal(programs: Programs, tmp_path: Path) -> Terminal:
    """A terminal in an empty folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    return Terminal(programs, folder)
