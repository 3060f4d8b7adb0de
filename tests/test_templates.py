"""What ``fedseg new`` writes: its own test passes, in any folder; mistakes are told."""

import subprocess
import sys

import pytest

import fedseg
from fedseg.errors import ConfigError
from fedseg.templates import KINDS


def test_every_beginning_passes_its_own_test(tmp_path):
    for kind in KINDS:
        files = fedseg.new(kind, f"my_{kind}", tmp_path / kind)
        assert all(path.is_file() and "@" not in path.read_text()[:40] for path in files)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and f"{len(KINDS)} passed" in done.stdout, done.stdout[-3000:]


@pytest.mark.parametrize(
    ("kind", "name", "told"),
    [
        ("algoritm", "a", "did you mean .algorithm"),
        ("loss", "A-b", "A-b"),
        ("loss", "class", "class"),
    ],
)
def test_other_names_are_refused(kind, name, told, tmp_path):
    with pytest.raises(ConfigError, match=f"^new: .*{told}"):
        fedseg.new(kind, name, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_nothing_is_written_over(tmp_path):
    (tmp_path / "my_own_loss.py").touch()
    with pytest.raises(ConfigError, match="exists: name a new"):
        fedseg.new("loss", "my_own_loss", tmp_path)
