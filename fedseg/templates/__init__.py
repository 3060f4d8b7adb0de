"""Beginnings of one's own algorithm, method, data set or local loss: runnable files and a test."""

import keyword
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from fedseg.errors import ConfigError
from fedseg.files import write_text
from fedseg.names import did_you_mean

HERE = Path(__file__).parent
KINDS = sorted(path.parent.name for path in HERE.glob("*/test_NAME.py.jinja"))


def write_new(kind: str, name: str, folder: Path) -> list[Path]:
    """Write a file, a config and a test to a new folder.

    Raises:
        ConfigError: unknown kind, a name that no module can have, or a folder with files.
    """
    if kind not in KINDS:
        raise ConfigError(f"new: unknown {kind!r}{did_you_mean(kind, KINDS)}: {', '.join(KINDS)}")
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ConfigError(f"new: {name!r} is not a module name: use small letters, digits and _")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder}: exists: name a new or empty folder with --out")
    title = "".join(part.title() for part in name.split("_"))
    paths = []
    templates = Environment(loader=FileSystemLoader(HERE), keep_trailing_newline=True)
    for file in sorted((HERE / kind).rglob("*.jinja")):
        inside = file.relative_to(HERE / kind).with_suffix("")
        path = folder / str(inside).replace("NAME", name)
        template = templates.get_template(file.relative_to(HERE).as_posix())
        write_text(path, template.render(name=name, title=title))
        paths.append(path)
    return paths
