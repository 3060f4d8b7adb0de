"""An environment with the wheel of this checkout, built once for all processes of the tests."""

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[2]
EXTRAS = "coco,export"  # what the pages tell a reader to install besides


@dataclass(frozen=True)
class Environment:
    """A virtual environment with ``fedseg`` and nothing of the checkout.

    Attributes:
        folder: of the environment.
        wheel: the file that is installed in it.
    """

    folder: Path
    wheel: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def variables(self) -> dict[str, str]:
        """The environment variables of a shell in which it is activated, with a wide terminal."""
        hidden = ("PYTHONPATH", "PYTHONHOME", "PYTHONSAFEPATH", "VIRTUAL_ENV")
        variables = {name: value for name, value in os.environ.items() if name not in hidden}
        variables["PATH"] = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        variables["COLUMNS"] = "200"
        return variables


def make_environment(folder: Path, fresh: bool) -> Environment:
    """The environment in a folder; the first process that asks for it makes it.

    Args:
        fresh: install all dependencies. Otherwise the packages of this interpreter are seen, and
            only the wheel is installed.
    """
    finished = folder / "finished"
    with FileLock(folder / "lock"):
        if not finished.exists():
            wheel = build_wheel(folder)
            if fresh:
                install_everything(folder / "venv", wheel)
            else:
                install_wheel_alone(folder / "venv", wheel)
            finished.touch()
    return Environment(folder / "venv", next(folder.glob("fedseg-*.whl")))


def build_wheel(folder: Path) -> Path:
    """The wheel of the source distribution of what git would commit."""
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


def install_wheel_alone(folder: Path, wheel: Path) -> None:
    """An environment that sees the packages of this one, but not the checkout that it has."""
    venv.create(folder, with_pip=False, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True)
    packages = [path for path in sys.path if Path(path).name == "site-packages"]
    own = next(folder.glob("lib/python*/site-packages"))
    # Python reads no .pth file of a folder that a .pth file names: the checkout is not found
    (own / "packages.pth").write_text("\n".join(packages), encoding="utf-8")


def install_everything(folder: Path, wheel: Path) -> None:
    """An environment as README makes it, with the extras of the pages and pytest."""
    venv.create(folder, with_pip=True)
    python = [str(folder / "bin" / "python"), "-m", "pip"]
    pinned = ["--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([*python, "install", "--quiet", *pinned, f"{wheel}[{EXTRAS}]"], check=True)
    subprocess.run([*python, "check"], check=True)
    subprocess.run([*python, "install", "--quiet", *pinned, "pytest"], check=True)
