"""What a work dir says of a run that was stopped."""

import sys

import pytest

from fedseg.runner.work_dir import how_to_resume


@pytest.mark.parametrize(
    ("program", "advice"),
    [
        ("fedseg train", "the same command with --resume continues"),
        ("fedseg demo", "the same command continues"),
        ("notebook.py", "the same call with resume=True continues"),
        ("", "the same call with resume=True continues"),
    ],
)
def test_a_stopped_run_is_continued_by_what_began_it(program, advice, monkeypatch):
    """Methods, seed and options stay as they were given, which no advice could repeat."""
    monkeypatch.setattr(sys, "argv", [program, "--with", "swa"])
    assert how_to_resume().startswith(advice)
