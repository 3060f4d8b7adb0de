"""MMEngine's import of transformers, which takes seconds and which nothing here uses."""

import subprocess
import sys
from importlib.util import find_spec

import pytest


@pytest.mark.skipif(find_spec("transformers") is None, reason="transformers is not installed")
def test_a_run_does_not_import_transformers():
    code = """
import sys
import fedseg.runner.runner
assert not any(name.startswith("transformers") for name in sys.modules)
import transformers  # as a model of a user's may
from peft import LoraConfig
"""
    subprocess.run([sys.executable, "-c", code], check=True)
