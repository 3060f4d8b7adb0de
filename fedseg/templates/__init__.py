"""Beginnings of one's own algorithm, method, data set or local loss: runnable files and a test."""

import keyword
import re
from importlib.util import find_spec
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from fedseg.errors import ConfigError
from fedseg.files import write_text
from fedseg.names import did_you_mean
from fedseg.registry import ALGORITHMS, DATASETS, LOCAL_LOSSES

HERE = Path(__file__).parent
METHODS = HERE.parent / "configs" / "methods"
KINDS = sorted(path.parent.name for path in HERE.glob("*/test_NAME.py.jinja"))
CLASSES = {"algorithm": ALGORITHMS, "dataset": DATASETS, "loss": LOCAL_LOSSES}


def write_new(kind: str, name: str, folder: Path) -> list[Path]:
    """Write a file, a config and a test to a new folder.

    Raises:
        ConfigError: unknown kind, a name whose module or class exists, or a folder with files.
    """
    if kind not in KINDS:
        raise ConfigError(f"new: unknown {kind!r}{did_you_mean(kind, KINDS)}: {', '.join(KINDS)}")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ConfigError(f"new: {name!r} is not a module name: use small letters, digits and _")
    if find_spec(name) is not None:
        raise ConfigError(f"new: {name!r} is an installed module: take another name")
    if kind == "method" and any(METHODS.rglob(f"{name}.py")):
        raise ConfigError(f"new: {name!r} is a method of the suite: take another name")
    title = "".join(part.title() for part in name.split("_"))
    if kind in CLASSES and title in CLASSES[kind].modules:
        raise ConfigError(
            f"new: {name!r} makes the class {title}, which {CLASSES[kind].modules[title]} has: "
            "take another name"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder}: exists: name a new or empty folder with --out")
    paths = []
    templates = Environment(loader=FileSystemLoader(HERE), keep_trailing_newline=True)
    files = sorted((HERE / kind).rglob("*.jinja"))
    imports = re.findall(r"^(?:from|import) .*", "\n".join(f.read_text() for f in files), re.M)
    if any(re.search(rf"\b{title}\b", line) for line in imports):
        raise ConfigError(f"new: {name!r} makes {title}, which its file imports: take another name")
    for file in files:
        inside = file.relative_to(HERE / kind).with_suffix("")
        path = folder / str(inside).replace("NAME", name)
        template = templates.get_template(file.relative_to(HERE).as_posix())
        write_text(path, template.render(name=name, title=title))
        paths.append(path)
    return paths
