"""OpenCV, of which two wheels unpack into one folder."""

import subprocess
import sys
from pathlib import Path

import pytest

import fedseg.opencv

ROOT = Path(__file__).parents[1]


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
