"""The repository as a whole: what tracked files may say, and what is tracked."""

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def tracked_files() -> list[Path]:
    try:
        listing = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs git and its checkout")
    paths = [ROOT / name for name in listing.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def test_tracked_files_name_no_machine_and_no_package_index():
    absolute = re.compile(r"(?<![\w./~-])/(?:home|root|work|Users|mnt|opt)/\w|\b[A-Z]:\\\w")
    # the words are put together here, so that this file does not hold what it looks for
    words = ["py" + "pi", "python" + "hosted", "index" + "-url", "find" + "-links", "/simple" + "/"]
    outside = re.compile("|".join([*words, r"\.\./sha" + "red"]), re.IGNORECASE)
    found = []
    for path in tracked_files():
        if path == Path(__file__):
            continue  # spells out what it looks for
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if absolute.search(line) or outside.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not found, "\n".join(found)


def test_only_sweeps_start_programs_and_nothing_runs_files():
    """A script that lies beside the clone or in a data root is not the project's to run."""
    starters = {"subprocess", "runpy", "exec", "eval", "system", "popen", "spec_from_file_location"}
    found = set()
    for path in tracked_files():
        place = path.relative_to(ROOT)
        if path.suffix != ".py" or place.parts[0] not in ("fedseg", "data_prep", "tools"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in getattr(node, "names", ()) if hasattr(alias, "name")]
            called = node.func if isinstance(node, ast.Call) else None
            attribute = getattr(called, "attr", None)
            names += [getattr(called, "id", None), None if attribute == "eval" else attribute]
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            found |= {(str(place), name) for name in starters.intersection(names)}
    starters = ("fedseg/runner/sweep.py",)
    trusted = {("fedseg/trust.py", "spec_from_file_location")}  # what --trust names
    assert found == trusted | {(place, "subprocess") for place in starters}


def test_nothing_that_is_generated_is_tracked():
    generated = {".venv", "__pycache__", "work_dirs", ".pytest_cache", ".ruff_cache", ".mypy_cache"}
    names = [path.relative_to(ROOT).parts for path in tracked_files()]
    assert not [name for name in names if generated & set(name) or name[0] == "data"]


def test_extras_that_are_named_exist():
    """In messages, pages and the Dockerfile."""
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = re.split(r"^\[project\.", pyproject, flags=re.MULTILINE)
    optional = next(part for part in extras if part.startswith("optional-dependencies"))
    known = set(re.findall(r"^(\w+) = \[", optional, re.MULTILINE))
    named = {"ray": []}
    for path in tracked_files():
        if path.suffix in (".py", ".md", ".sh") or path.name == "Dockerfile":
            for names in re.findall(r"\bfedseg\[([a-z,]+)\]|EXTRAS=([a-z,]+)", path.read_text()):
                for name in "".join(names).split(","):
                    named.setdefault(name, []).append(str(path.relative_to(ROOT)))
    assert len(named) > 5
    assert not {name: paths for name, paths in named.items() if name not in known}


def test_modules_have_docstrings():
    sources = [p for top in ("fedseg", "data_prep", "tools") for p in (ROOT / top).rglob("*.py")]
    assert sources
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sources}
    assert not [p for p, tree in trees.items() if tree.body and not ast.get_docstring(tree)]


def test_modules_keep_nothing_that_two_calls_share():
    """What a call leaves in a module is there for another thread's call, too."""
    kept = set()
    for path in (ROOT / "fedseg").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.Assign | ast.AnnAssign):
                continue
            value = ast.unparse(node.value) if node.value is not None else ""
            if value in ("[]", "{}", "set()", "dict()", "list()"):
                target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                kept.add((path.relative_to(ROOT).as_posix(), ast.unparse(target)))
    assert not kept


MAKE = """#!/bin/sh
case $1 in
  docs-tools) echo "no network" >&2; exit 2;;
  test) echo "$FEDSEG_LEFT_OUT"; echo "3 passed, 2 skipped"; exit 2;;
esac
"""


def test_continuous_integration_says_what_it_could_not_install(tmp_path):
    """A program that cannot be installed hides no test, and the tests' exit code is its own."""
    for name in ("bash", "dirname", "env", "tail", "timeout"):
        (tmp_path / name).symlink_to(shutil.which(name))
    for name, script in {
        "make": MAKE,
        "id": "#!/bin/sh\necho 0\n",
        "apt-get": "#!/bin/sh\necho 'cannot reach the archive'\nexit 100\n",
    }.items():
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["bash", str(ROOT / ".ci" / "run")],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "page, Chromium cannot be installed: cannot reach the archive" in done.stdout
    assert "site, MkDocs cannot be installed: no network" in done.stdout
    assert done.stdout.splitlines()[-1] == "3 passed, 2 skipped"
