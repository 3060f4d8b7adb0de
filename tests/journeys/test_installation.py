"""What is installed: all that a run needs, under one name, and nothing of the checkout."""

import zipfile

from environment import ROOT, Environment

KINDS = ("*.py", "*.pyi", "*.json", "*.yaml", "*.jinja", "*.txt", "*.pth", "py.typed")


def test_the_wheel_is_complete_and_claims_one_name(environment: Environment):
    with zipfile.ZipFile(environment.wheel) as archive:
        names = set(archive.namelist())
        entry = next(name for name in names if name.endswith("entry_points.txt"))
        assert "fedseg = fedseg.commands.main:run" in archive.read(entry).decode()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"fedseg"}
    for folder in ("fedseg", "fedseg/data_prep", "fedseg/configs"):
        source = (ROOT / folder).resolve()
        files = {path for kind in KINDS for path in source.rglob(kind)}
        wanted = {f"{folder}/{path.relative_to(source)}" for path in files}
        assert wanted and not wanted - names
    page = (ROOT / "fedseg" / "leaderboard" / "page_assets").iterdir()
    assert {str(path.relative_to(ROOT)) for path in page} <= names


def test_the_program_is_that_of_the_wheel(terminal):
    terminal.write("where.py", "import fedseg\n\nprint(fedseg.__file__)\n")
    place = terminal.run("python where.py").strip()
    assert place.endswith("site-packages/fedseg/__init__.py")
    assert str(ROOT) not in place
    assert terminal.run("fedseg --version") == terminal.run("python -m fedseg --version")
    assert "train" in terminal.run("fedseg --help")
