"""What is installed: all that a run needs, under one name, and it works outside the clone."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import fedseg.opencv

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"  # building writes beside the sources
    source.mkdir()
    copy = "git ls-files -z -co --exclude-standard | tar --null --files-from=- -c"
    copy += f" | tar -x -C '{source}'"
    if not (ROOT / ".git").exists() or subprocess.run(["bash", "-c", copy], cwd=ROOT).returncode:
        pytest.skip("needs git, its checkout and tar")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(source)], check=True)
    return next(folder.glob("fedseg-*.whl"))


def test_the_wheel_is_complete_and_claims_one_name(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        entry = next(name for name in names if name.endswith("entry_points.txt"))
        assert "fedseg = fedseg.commands.main:run" in archive.read(entry).decode()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"fedseg"}
    kinds = ("*.py", "*.pyi", "*.json", "*.yaml", "py.typed")
    for folder in ("fedseg", "fedseg/data_prep", "fedseg/configs"):
        files = {p for kind in kinds for p in (ROOT / folder).resolve().rglob(kind)}
        wanted = {f"{folder}/{p.relative_to((ROOT / folder).resolve())}" for p in files}
        assert wanted and not wanted - names
    assert any(name.startswith("fedseg/leaderboard/page_assets/") for name in names)


def test_what_is_installed_trains_outside_the_clone(wheel, tmp_path):
    """The whole way is in tests/new_user.sh; here a config is found, checked and trained."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "COLUMNS": "100"}

    def fedseg(*words: object) -> str:
        command = [sys.executable, "-m", "fedseg", *map(str, words)]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    fedseg("prepare", "CIFAR", "--synthetic", "--root", "shapes", "--partition", "none")
    own = tmp_path / "own.py"
    own.write_text('_base_ = "fedseg::settings/demo_shapes.py"\nmethods = ["fedavgm"]\n')
    options = ["data_root=shapes", "train_cfg.max_rounds=1", "client_sampler.clients_per_round=1"]
    options += [f"{kind}_dataloader.corrupted=None" for kind in ("val", "test")]
    assert "accuracy" in fedseg("train", own, "--quiet", "--cfg-options", *options)
    assert (tmp_path / "work_dirs" / "own" / "seed0" / "results.json").is_file()


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
