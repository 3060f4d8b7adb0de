"""Templates of paths: where a data set's images and label maps are below their root.

A template is a path with fields in braces, such as ``{split}/{domain}/{name}_leftImg8bit.png``. A
field matches a part of one path component: no ``/``, and no dot at its beginning. A field that
occurs twice matches the same text. Where a text can be divided in several ways, earlier fields are
shorter. ``{ending}`` matches the endings of images: jpg, jpeg or png, in any case.
"""

import glob
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from fedseg.datasets.images import ENDINGS
from fedseg.errors import ConfigError

FIELD = re.compile(r"\{([a-z]+)\}")
ENDING = "ending"
ANY_TEXT = r"[^/.][^/]*?"
ANY_ENDING = "(?i:" + "|".join(ending.removeprefix(".") for ending in ENDINGS) + ")"


def fields_of(template: str, path: str) -> dict[str, str] | None:
    """Match a path with a template; returns the text of each field, None if it does not match."""
    match = _expression(template).fullmatch(path)
    return None if match is None else match.groupdict()


def fill(template: str, fields: Mapping[str, str]) -> str:
    """Write the path that has these texts in the fields of a template."""
    return template.format_map(fields)


def names_of(template: str) -> set[str]:
    """List the names of a template's fields."""
    return set(_expression(template).groupindex)


def find_files(root: str | Path, template: str) -> dict[str, dict[str, str]]:
    """Find the files below a root that match a template; links are followed.

    Returns: path relative to ``root`` -> fields, sorted by path.
    """
    texts = FIELD.split(template)[::2]
    pattern = "*".join(glob.escape(text) for text in texts)
    files = {}
    for path in sorted(glob.iglob(pattern, root_dir=root)):
        path = Path(path).as_posix()
        fields = fields_of(template, path)
        if fields is not None:
            files[path] = fields
    return files


@lru_cache
def _expression(template: str) -> re.Pattern[str]:
    """Compile a template; the groups of the regular expression are its fields."""
    expression, known = "", set()
    for position, text in enumerate(FIELD.split(template)):
        if position % 2 == 0:
            if "{" in text or "}" in text or "*" in text or "?" in text:
                must = "must be a path with fields such as {name}"
                raise ConfigError(f"template: {must}, not {template!r}.")
            expression += re.escape(text)
        elif text in known:
            expression += f"(?P={text})"
        else:
            known.add(text)
            expression += f"(?P<{text}>{ANY_ENDING if text == ENDING else ANY_TEXT})"
    return re.compile(expression)
