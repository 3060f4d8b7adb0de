"""Code of a user's own that a run needs: what ``--trust`` names, and what a run notes of it.

A run may come from anyone, so what its recorded config imports is executed only if the user says
so. While a run is trained, it notes where its own modules are, for the commands that it prints.
"""

import json
import os
import re
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module, invalidate_caches
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from fedseg import cli
from fedseg.checks import walk
from fedseg.errors import ConfigError, DataError
from fedseg.files import own_path, read_json, write_text
from fedseg.registry import MODELS

# a file FILE.py, a folder, or an installed module; or several of them
Trust = Sequence[str | Path] | str | Path
OWN_PARTS = "own_parts.json"  # of a run: module of its own -> file or folder to trust
MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")  # a module's name
INSTALLED = ("site-packages", "dist-packages")
STANDARD_LIBRARY = os.path.join(sysconfig.get_path("stdlib"), "")
SUITE = os.path.join(os.path.dirname(__file__), "")
MMSEG = "mmseg.models"  # registers the networks of MMSegmentation
# those of them that need no trust: the suite's methods use them
LIBRARIES = (
    *("EncoderDecoder", "FCNHead", "DepthwiseSeparableASPPHead", "SegformerHead"),
    *("BiSeNetV2", "MixVisionTransformer", "TIMMBackbone"),
)


# ---------------------------------------------------------------- importing what is trusted


def modules_named(config: Mapping[str, Any]) -> list[str]:
    """The modules that a run's recorded config imports; what is no module's name is left out."""
    imports = config.get("custom_imports")
    names = imports.get("imports") if isinstance(imports, Mapping) else None
    names = names if isinstance(names, list) else []
    return [name for name in names if isinstance(name, str) and MODULE.fullmatch(name)]


def import_trusted(trust: Trust, named: Sequence[str], run: Path) -> set[str]:
    """Import trusted code; returns the modules whose registered classes the run may use.

    Args:
        trust: each is a file, which is imported by its name; a folder, of which the modules that
            the run names are imported; or an installed module.
        named: modules that the run's config names.
        run: its folder, from which nothing is imported.
    """
    modules: set[str] = set()
    for text in as_list(trust):
        if text.endswith(".py"):
            modules.add(_import_file(Path(text), named, run))
        elif Path(text).is_dir():
            modules |= _import_folder(Path(text), named, run)
        else:
            modules.add(_import_module(text, run))
    return modules


def as_list(trust: Trust) -> list[str]:
    """What is trusted, as texts."""
    return [str(trust)] if isinstance(trust, str | Path) else [str(path) for path in trust]


def _import_file(path: Path, named: Sequence[str], run: Path) -> str:
    """Import a file as the module of its name, without the files beside it."""
    name, path = path.stem, path.absolute()
    if not path.is_file():
        raise ConfigError(f"--trust: {path}: no such file")
    if name not in named:
        listed = ", ".join(named) or "no module of its own"
        raise ConfigError(f"--trust: {path}: the run imports {listed}, not {name}")
    _refuse_inside(path, run)
    if name not in sys.modules:
        spec = spec_from_file_location(name, path)
        sys.modules[name] = module_from_spec(spec)
        try:
            spec.loader.exec_module(sys.modules[name])
        except ImportError as error:
            del sys.modules[name]
            fix = f"if that is a file beside it, trust the folder: --trust {path.parent}"
            raise ConfigError(f"--trust: {path}: {error}: {fix}") from error
        except BaseException:
            del sys.modules[name]
            raise
    _check_origin(name, path)
    return name


def _import_folder(folder: Path, named: Sequence[str], run: Path) -> set[str]:
    """Import the named modules that are in a folder; returns all modules imported from there."""
    folder = folder.resolve()
    with _first_on_path(folder):
        for name in named:
            path = _file_in(folder, name)
            if path is None:
                continue
            _refuse_inside(path, run)
            try:
                import_module(name)
            except ImportError as error:
                raise ConfigError(f"--trust: {folder}: {name}: {error}") from error
            _check_origin(name, path)
    return set(_modules_in(folder))


def _import_module(name: str, run: Path) -> str:
    """Import an installed module, or one on the user's ``PYTHONPATH``."""
    try:
        spec = find_spec(name.partition(".")[0])
        places = [spec.origin, *(spec.submodule_search_locations or ())] if spec else []
        for place in filter(None, places):
            _refuse_inside(Path(place), run)
        import_module(name)
    except (ImportError, ValueError, AttributeError) as error:
        forms = "a FILE.py, a folder or an installed module"
        raise ConfigError(f"--trust: {name}: is not {forms} ({error})") from error
    return name


def _is_inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _refuse_inside(path: Path, run: Path) -> None:
    if _is_inside(path, run):
        raise ConfigError(f"--trust: {path} is in the run's folder: copy it elsewhere")


def _check_origin(name: str, path: Path) -> None:
    """Raise ConfigError if a module was imported from another file than the trusted one."""
    origin = _file_of(name)
    if origin is None or not os.path.samefile(origin, path):
        raise ConfigError(
            f"--trust: {path}: this process has imported {name} from {origin or 'elsewhere'}: "
            "rename the module, or start a new process"
        )


@contextmanager
def _first_on_path(folder: Path) -> Iterator[None]:
    """Within it, modules are looked for in a folder first, as in training; afterwards there last.

    Code of the folder that is imported later, in a function, is still found.
    """
    sys.path.insert(0, str(folder))
    invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        if str(folder) not in sys.path:
            sys.path.append(str(folder))


def _file_in(folder: Path, name: str) -> Path | None:
    """The file of a module or package below a folder."""
    place = folder.joinpath(*name.split("."))
    for path in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
        if path.is_file():
            return path
    return None


def _file_of(name: str) -> str | None:
    """The file of an imported module, if it has one."""
    module = sys.modules.get(name)
    file = vars(module).get("__file__") if isinstance(module, ModuleType) else None
    return file if isinstance(file, str) else None


def _modules_in(folder: Path) -> list[str]:
    """Imported modules whose files are below a folder, without installed ones and the program."""
    inside = []
    for name in [*sys.modules]:
        file = _file_of(name)
        if file is None or name == "__main__" or _is_installed(file):
            continue
        if Path(os.path.realpath(file)).is_relative_to(folder):
            inside.append(name)
    return inside


def _is_installed(file: str) -> bool:
    """True for a file of Python, of this suite, or of an installed package."""
    if any(f"{os.sep}{name}{os.sep}" in file for name in INSTALLED):
        return True
    return file.startswith((STANDARD_LIBRARY, SUITE))


# ---------------------------------------------------------------- what a run notes, and its advice


def own_parts(config: Mapping[str, Any]) -> dict[str, str]:
    """Modules beyond the suite whose classes a config uses -> what to trust, from this folder.

    Of a module of the user's own that is its file, or its folder if other modules of the folder
    were imported, too, which the file alone would not find.
    """
    parts = {}
    for name in modules_named(config):
        file = _file_of(name)
        if file is None or _is_installed(file):
            continue
        path = Path(os.path.realpath(file))
        levels = name.count(".") + (path.name == "__init__.py")
        folder = path.parents[levels]
        is_alone = levels == 0 and _modules_in(folder) == [name]
        parts[name] = os.path.relpath(path if is_alone else folder)
    model = config.get("model")
    kinds = [part.get("type") for _, part in walk(model) if isinstance(part, Mapping)]
    if any(is_of_mmseg(kind) for kind in kinds):
        parts[MMSEG] = MMSEG
    return parts


def is_of_mmseg(kind: Any) -> bool:
    """True for the name of a network of MMSegmentation that needs trust; imports nothing."""
    if not isinstance(kind, str) or kind in LIBRARIES:
        return False
    registry = MODELS
    while registry is not None:
        module = getattr(registry.module_dict.get(kind), "__module__", "")
        if module.startswith(f"{MMSEG}."):
            return True
        registry = registry.parent
    return False


def note_own_parts(folder: Path, config: Mapping[str, Any]) -> None:
    """Write down a run's own parts; ``folder``: its work dir."""
    parts = own_parts(config)
    if parts:
        write_text(folder / OWN_PARTS, json.dumps(parts, indent=1) + "\n")


def noted_parts(folder: Path) -> dict[str, str]:
    """Module -> what to trust, as a run has noted it; empty if it has noted nothing of the kind."""
    try:
        path = own_path(folder, OWN_PARTS)
        parts = read_json(path) if path.is_file() else {}
    except DataError:
        return {}
    if not isinstance(parts, dict) or not all(isinstance(text, str) for text in parts.values()):
        return {}
    return parts


def parts_to_trust(run: Path, named: Iterable[str]) -> list[str]:
    """What to trust for a run, as far as it is there: files, folders and installed modules."""
    noted, parts = noted_parts(run), []
    for name in named:
        part = noted.get(name, f"{name}.py")
        if _has_module(Path(part), name) and not _is_inside(Path(part), run):
            parts.append(part)
        elif _is_importable(name):
            parts.append(name)
    return list(dict.fromkeys(parts))


def _has_module(part: Path, name: str) -> bool:
    """True if a file is that of a module, or a folder has it."""
    if part.suffix == ".py":
        return part.is_file() and part.stem == name
    return _file_in(part, name) is not None


def _is_importable(name: str) -> bool:
    """True for a module that Python finds by itself; nothing is imported."""
    try:
        return find_spec(name.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def how_to_trust(run: Path, named: Sequence[str], trusted: Collection[str]) -> str:
    """What to do where a run needs a class that no trusted module has registered.

    Args:
        run: its folder.
        named: modules whose classes its config may mean.
        trusted: modules that are trusted already.
    """
    missing = [name for name in named if name not in trusted]
    if not missing:
        return "no module that the run imports registers it"
    listed = " or ".join(missing)
    parts = parts_to_trust(run, missing)
    if not parts:
        return f"it is code of {listed}: trust its file or folder with --trust if you have it"
    command = cli.command_with("--trust", *parts)
    call = f"trust={parts}" if command is None else command
    return f"it is code of {listed}, which is executed only if you trust it: {call}"
