"""From which file each value of a composed config comes."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from fedseg.runner.compose import CONFIGS, Composition, bases, get

MISSING = object()


def origins(
    composition: Composition, config: Mapping[str, Any], overridden: Collection[str] = ()
) -> Iterator[tuple[str, Any, str]]:
    """(key, value, file) of every value that is no dict, keys with dots; the files are short.

    Values below the overridden keys are from ``--cfg-options``; those of the composed config that
    none of its files has are ``composed``.
    """
    layers = [(part.path, part.values) for part in composition.layers()][::-1]
    for key, value in _leaves(config):
        if any(f"{key}.".startswith(f"{o}.") or o.startswith(f"{key}.") for o in overridden):
            yield key, value, "--cfg-options"
            continue
        for path, values in (*layers, (composition.path, composition.read(composition.path))):
            if get(values, key, MISSING) == value:
                yield key, value, _short(_first(composition, path, key, value))
                break
        else:
            added = [part.path.stem for part in composition.parts if key in part.append]
            yield key, value, f"with what {', '.join(added)} adds" if added else "composed"


def _first(composition: Composition, path: Path, key: str, value: Any) -> Path:
    """The deepest base of a file that has the value already, or the file."""
    for base in bases(path):
        if get(composition.read(base), key, MISSING) == value:
            return _first(composition, base, key, value)
    return path


def _leaves(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _short(path: Path) -> str:
    path = path.resolve()
    return str(path.relative_to(CONFIGS) if path.is_relative_to(CONFIGS) else path)
