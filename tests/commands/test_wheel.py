"""What is installed: all that a run needs, under one name, and it works outside the clone."""

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import fedseg.opencv
from fedseg.commands.main import COMMANDS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the source distribution: it has what the clone has."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"  # building writes beside the sources
    source.mkdir()
    copy = "git ls-files -z -co --exclude-standard | tar --null --files-from=- -c"
    copy += f" | tar -x -C '{source}'"
    if not (ROOT / ".git").exists() or subprocess.run(["bash", "-c", copy], cwd=ROOT).returncode:
        pytest.skip("needs git, its checkout and tar")
    build = "from setuptools import build_meta; build_meta.build_sdist('..')"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    sdist = next(folder.glob("fedseg-*.tar.gz"))
    subprocess.run([*command, "--wheel-dir", str(folder), str(sdist)], check=True)
    return next(folder.glob("fedseg-*.whl"))


def test_the_wheel_is_complete_and_claims_one_name(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        entry = next(name for name in names if name.endswith("entry_points.txt"))
        assert "fedseg = fedseg.commands.main:run" in archive.read(entry).decode()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"fedseg"}
    kinds = ("*.py", "*.pyi", "*.json", "*.yaml", "*.jinja", "*.txt", "py.typed")
    for folder in ("fedseg", "fedseg/data_prep", "fedseg/configs"):
        files = {p for kind in kinds for p in (ROOT / folder).resolve().rglob(kind)}
        wanted = {f"{folder}/{p.relative_to((ROOT / folder).resolve())}" for p in files}
        assert wanted and not wanted - names
    page = (ROOT / "fedseg" / "leaderboard" / "page_assets").iterdir()
    assert {str(path.relative_to(ROOT)) for path in page} <= names


def test_a_new_user_gets_from_the_wheel_to_a_leaderboard(wheel):
    site = sysconfig.get_path("purelib")
    settings = {"WHEEL": str(wheel), "SITE": site, "PYTHON": sys.executable, "COLUMNS": "100"}
    done = subprocess.run(
        [ROOT / "tests" / "new_user.sh"],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=480,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert "accuracy" in done.stdout and "index.html" in done.stdout
    assert str(ROOT) not in done.stdout


def test_the_new_user_does_what_the_readmes_first_screen_says():
    screen = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Published")[0]
    script = (ROOT / "tests" / "new_user.sh").read_text(encoding="utf-8")
    lines = re.findall(rf"^fedseg (?:{'|'.join(COMMANDS)}) .*", screen, re.MULTILINE)
    assert len(lines) >= 5
    for line in lines:
        assert f"step {line.partition(' --cfg-options')[0]}" in script


@pytest.mark.parametrize("fault", ["raise ImportError('libGL.so.1 is missing')", ""])
def test_an_opencv_that_does_not_work_is_told(tmp_path, fault):
    (tmp_path / "cv2.py").write_text(fault)
    code = "import sys; sys.path.insert(0, sys.argv[1]); import fedseg.opencv"
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "ResourceError" in done.stderr and "opencv-python-headless" in done.stderr
    assert fedseg.opencv.version  # the one of this environment works


def test_both_wheels_of_opencv_have_one_version():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    lines += (ROOT / "pyproject.toml").read_text(encoding="utf-8").split('"')
    pins = [line for line in lines if line.startswith("opencv-python")]
    assert len(pins) == 4 and len({pin.partition("==")[2] for pin in pins}) == 1
