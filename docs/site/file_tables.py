"""Writes the tables of fields in docs/configuration.md: ``python docs/site/file_tables.py``.

Between ``<!-- fields: MODEL -->`` and ``<!-- end -->`` stands what the model of a file says of its
fields. A test compares the page with this output.
"""

import re
import sys
from pathlib import Path

from pydantic import BaseModel

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from fedseg.runs.history import Record  # noqa: E402
from fedseg.runs.schema import DataFacts, ResultsFile  # noqa: E402

PAGE = ROOT / "docs" / "configuration.md"
MODELS = {model.__name__: model for model in (Record, ResultsFile, DataFacts)}
MARKED = re.compile(r"(<!-- fields: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(model: type[BaseModel]) -> str:
    """A line per field that has a description."""
    fields = {name: one.description for name, one in model.model_fields.items() if one.description}
    lines = ["| field | what |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{name}` | {text} |" for name, text in fields.items())])


def refreshed(page: str) -> str:
    """The page with its tables regenerated."""
    return MARKED.sub(lambda m: f"{m[1]}{table(MODELS[m[2]])}\n{m[3]}", page)


if __name__ == "__main__":
    PAGE.write_text(refreshed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
