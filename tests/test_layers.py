"""Which way imports point: the table of docs/design.md; imports in functions count too."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GROUND = {
    *("batchnorm", "checks", "cli", "errors", "files", "memory", "mmengine_optim", "names"),
    *("opencv", "parts", "registry", "trust"),
}
GROUND |= {"config.accepted", "config.roles", "config.arguments", "metric_names", "units"}
# package -> what it may import besides itself; a single module is named in full
LAYERS = {
    "core": {"batchnorm", "checks", "errors", "memory", "mmengine_optim", "parts"},
    "config": GROUND,
    "models": GROUND,
    "datasets": {*GROUND, "core.seeds", "partition.split_files"},
    "partition": {*GROUND, "core.seeds"},
    "optim": {*GROUND, "core"},
    "algorithms": {*GROUND, "core", "optim", "models"},
    "local_losses": {*GROUND, "core", "models"},
    "updates": {*GROUND, "core"},
    "hooks": {*GROUND, "core"},
    "engine": {*GROUND, "core", "updates"},
    "loaders": {*GROUND, "core", "datasets", "partition"},
    "evaluation": {*GROUND, "core", "datasets", "loaders"},
    "runs": {*GROUND, "core", "datasets"},
}
LAYERS["runner"] = {*GROUND, *LAYERS}
LAYERS["parallel"] = {*LAYERS["runner"], "runner"}
LAYERS["curvature"] = {*LAYERS["runner"], "runner"}
LAYERS["report"] = {*LAYERS["curvature"], "curvature"}
LAYERS["inference"] = {*LAYERS["report"], "report"}
LAYERS["leaderboard"] = {*LAYERS["report"], "report"}
LAYERS["data_prep"] = {*GROUND, "core.seeds", "datasets", "partition"}
LAYERS["templates"] = {"errors", "files", "names", "registry"}
LAYERS["api"] = {*LAYERS["report"], "report", "inference", "data_prep", "templates"}
LAYERS["commands"] = {*LAYERS["leaderboard"], "inference", "leaderboard", "data_prep", "api"}
LAYERS["__main__"] = {"commands"}
SOURCES = sorted(p for top in ("fedseg", "data_prep") for p in (ROOT / top).rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in SOURCES}


def imported(path: Path) -> set[str]:
    """The project's modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = path.relative_to(ROOT).parts[: -node.level] if node.level else ()
            source = ".".join([*above, *filter(None, [node.module])])
            names = [f"{source}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            name = name.replace("fedseg.data_prep", "data_prep")  # as what it is installed
            owner = name if name in MODULES else name.rpartition(".")[0]
            if name.split(".")[0] in ("fedseg", "data_prep", "tools", "tests"):
                found.add(owner)
    return found


def package(module: str) -> str:
    """``fedseg.core.flat`` -> ``core``; all of ``data_prep`` is one package."""
    parts = module.split(".")
    return parts[0] if parts[0] != "fedseg" else parts[1] if len(parts) > 1 else "fedseg"


def test_every_package_is_in_the_table():
    packages = {package(m) for m, p in MODULES.items() if p.name == "__init__.py"}
    assert packages - {"fedseg"} == set(LAYERS) - {"__main__", "api"}


def test_imports_point_down():
    wrong = []
    for module, path in MODULES.items():
        own = package(module)
        allowed = LAYERS.get(own, set() if own == "fedseg" else GROUND) | {own}
        for target in imported(path):
            short = target.removeprefix("fedseg.")
            if target == "fedseg" or package(target) in allowed or short in allowed:
                continue
            wrong.append(f"{module} -> {target}")
    assert not wrong, "\n".join(sorted(wrong))


def test_imports_have_no_circle():
    graph = {}
    for module, path in MODULES.items():
        graph[module] = {m for m in imported(path) if m in MODULES and m != module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_street_renderer_is_used_by_its_public_names_only():
    inside = "data_prep.streets."
    wrong = [
        f"{module} -> {target}"
        for module, path in MODULES.items()
        if not module.startswith("data_prep.streets")
        for target in imported(path)
        if target.startswith(inside)
    ]
    assert not wrong
