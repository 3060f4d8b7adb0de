"""The repository as a whole: what tracked files may say, and which way imports point."""

import ast
import re
import subprocess
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("fedseg", "data_prep")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TOOLS = sorted((ROOT / "tools").glob("*.py"))

# Packages that know nothing of federated training, and what they may take from the engine.
BELOW = ("fedseg.datasets", "fedseg.partition", "fedseg.models", "fedseg.evaluation")
ABOVE = ("fedseg.engine", "fedseg.algorithms", "fedseg.hooks", "fedseg.optim")
SHARED = ("fedseg.core.seeds",)


def tracked_files() -> list[Path]:
    try:
        listing = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs git and its checkout")
    paths = [ROOT / name for name in listing.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_inside(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def imports(path: Path, at_run_time: bool = False) -> list[str]:
    """Names of imported modules, with ``from a import b`` as ``a.b``.

    Args:
        path: a source file.
        at_run_time: leave out what only functions or type checkers import.
    """
    package = path.relative_to(ROOT).parent.parts
    found = []
    for node in import_nodes(ast.parse(path.read_text(encoding="utf-8")), at_run_time):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        else:
            above = package[: len(package) - node.level + 1] if node.level else ()
            source = ".".join([*above, *filter(None, [node.module])])
            found += [f"{source}.{alias.name}" for alias in node.names]
    return found


def import_nodes(node: ast.AST, at_run_time: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif not (at_run_time and is_deferred(child)):
            yield from import_nodes(child, at_run_time)


def is_deferred(node: ast.AST) -> bool:
    """Whether imports inside happen later than the module's own, or never."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.dump(node.test)
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def test_tracked_files_name_no_machine_and_no_package_index():
    absolute = re.compile(r"(?<![\w./~-])/(?:home|root|work|Users|mnt|opt)/\w|\b[A-Z]:\\\w")
    # the words are put together here, so that this file does not hold what it looks for
    words = ["py" + "pi", "python" + "hosted", "index" + "-url", "find" + "-links", "/simple" + "/"]
    index = re.compile("|".join(words), re.IGNORECASE)
    found = []
    for path in tracked_files():
        if path == Path(__file__):
            continue  # spells out what it looks for
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if absolute.search(line) or index.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not found, "\n".join(found)


def test_nothing_that_is_generated_is_tracked():
    generated = {".venv", "__pycache__", "work_dirs", "data", ".pytest_cache", ".ruff_cache"}
    found = [path for path in tracked_files() if generated & set(path.relative_to(ROOT).parts)]
    assert not found


@pytest.mark.parametrize("path", SOURCES, ids=names(SOURCES))
def test_imports_point_down(path):
    module = module_name(path)
    found = imports(path)
    outer = ("tools", "tests")
    forbidden = ("data_prep", *outer) if is_inside(module, ("fedseg",)) else (*ABOVE, *outer)
    if is_inside(module, BELOW):
        forbidden += ABOVE
    wrong = [name for name in found if is_inside(name, forbidden) and not is_inside(name, SHARED)]
    assert not wrong


def test_imports_have_no_circle():
    modules = {module_name(path) for path in SOURCES}
    graph = {}
    for path in SOURCES:
        if path.name == "__init__.py":
            continue  # collects its package's names
        needed = set()
        for name in imports(path, at_run_time=True):
            owner = name if name in modules else name.rpartition(".")[0]
            if owner in modules and owner != module_name(path):
                needed.add(owner)
        graph[module_name(path)] = needed
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
    assert set(graph) <= set(order)


@pytest.mark.parametrize("path", SOURCES + TOOLS, ids=names(SOURCES + TOOLS))
def test_module_has_a_docstring(path):
    tree = ast.parse(path.read_text())
    assert not tree.body or ast.get_docstring(tree)
