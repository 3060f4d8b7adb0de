"""What the package's sources define, read without running them: that would import torch."""

import ast
import functools
import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent


@dataclass(frozen=True)
class ClassSource:
    """A class at the top of a module.

    Attributes:
        names: what it is registered as, by the name of the registry's variable.
        arguments: of ``__init__`` besides ``self``; None if the class has none of its own.
        passes_on: whether ``__init__`` takes arguments of any name.
        line: of its docstring, the first.
        tool: of a data set, the command that makes it; empty: its base says so.
    """

    module: str
    names: dict[str, tuple[str, ...]]
    bases: tuple[str, ...]
    arguments: tuple[str, ...] | None
    passes_on: bool
    line: str
    tool: str


@functools.cache
def read_classes(path: Path, module: str) -> dict[str, ClassSource]:
    """The classes at the top of a file, by name, and functions that build what is registered."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    meant = {alias.asname: alias.name for node in imports for alias in node.names}
    builders = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.decorator_list]
    nodes = [*(node for node in tree.body if isinstance(node, ast.ClassDef)), *builders]
    return {node.name: _read_class(node, module, meant) for node in nodes}


def _read_class(
    node: ast.ClassDef | ast.FunctionDef, module: str, meant: dict[str | None, str]
) -> ClassSource:
    names: dict[str, tuple[str, ...]] = {}
    for call in node.decorator_list:
        function = getattr(call, "func", None)
        if getattr(function, "attr", None) == "register_module":
            given = [*call.args, *(k.value for k in call.keywords if k.arg == "name")]
            said = ast.literal_eval(given[0]) if given else node.name
            names[ast.unparse(function.value)] = (said,) if isinstance(said, str) else tuple(said)
    whole = isinstance(node, ast.FunctionDef)
    inner = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
    arguments: tuple[str, ...] | None = None
    passes_on = False
    for function in [node] if whole else inner:
        own = function.args
        plain = [a.arg for a in (*own.posonlyargs, *own.args)][not whole :]
        arguments = (*plain, *(a.arg for a in own.kwonlyargs))
        passes_on = own.kwarg is not None
    line = (ast.get_docstring(node) or "").partition("\n")[0]
    said = [ast.unparse(base).rpartition(".")[2] for base in getattr(node, "bases", ())]
    bases = tuple(meant.get(base, base) for base in said)
    values = [n for n in node.body if isinstance(n, ast.Assign)]
    tool = [ast.literal_eval(n.value) for n in values if ast.unparse(n.targets[0]) == "tool"]
    return ClassSource(module, names, bases, arguments, passes_on, line, *tool or [""])


@functools.cache
def classes(module: str) -> dict[str, ClassSource]:
    """The classes of a module of fedseg, or of all modules of a package, by name."""
    path = ROOT.joinpath(*module.split(".")[1:])
    if not path.is_dir():
        return read_classes(path.with_suffix(".py"), module)
    files = sorted(path.glob("*.py"))
    return {n: c for f in files for n, c in read_classes(f, f"{module}.{f.stem}").items()}


def registered(registry: str, modules: Iterable[str]) -> dict[str, ClassSource]:
    """What modules add to a registry, by the name of its variable: name -> class."""
    every = (source for module in modules for source in classes(module).values())
    return {name: source for source in every for name in source.names.get(registry, ())}


def lazy_exports(package: str, file: str) -> Callable[[str], Any]:
    """A ``__getattr__`` of a package that imports what the file names under ``TYPE_CHECKING``."""
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    imports = [node for block in tree.body if isinstance(block, ast.If) for node in block.body]
    homes = {alias.name: node.module for node in imports for alias in node.names}

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes[name]), name)

    return __getattr__
