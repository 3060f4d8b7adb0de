"""MMEngine's import of transformers, which takes seconds and which nothing here uses."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "fedseg"
# what imports MMEngine's optimizers, of MMEngine and of what is made with it
IMPORTS = r"^from (mmengine\.(hooks|model|optim|runner|visualization)|mmcv)\b"


@pytest.mark.skipif(find_spec("transformers") is None, reason="transformers is not installed")
def test_a_run_does_not_import_transformers():
    code = """
import sys
import fedseg.runner.runner
assert not any(name.startswith("transformers") for name in sys.modules)
import transformers  # as a model of a user's may
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_it_is_left_out_wherever_one_begins():
    """A module that imports MMEngine, or its package, leaves transformers out before."""
    early = []
    for path in SOURCES.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        first = re.search(IMPORTS, text, re.MULTILINE)
        if first is None or path.name == "mmengine_optim.py":
            continue
        before = text[: first.start()] + path.with_name("__init__.py").read_text(encoding="utf-8")
        if "import fedseg.mmengine_optim" not in before:
            early.append(str(path))
    assert not early
