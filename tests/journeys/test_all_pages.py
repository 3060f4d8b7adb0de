"""Every command of every page is one that exists: its options, configs, methods, targets of make.

Nothing is run here; the other files of this folder run what the first pages say.
"""

import functools
import importlib.util
import itertools
import re
import subprocess

import pytest
from command_lines import parse
from doc_pages import PAGES, ROOT, Block, all_blocks, blocks, commands
from mmengine.config import Config

from fedseg.config.compose import compose, setting_file
from fedseg.errors import ConfigError

LOOP = re.compile(r"for (\w+) in ([\w ]+); do")
TOOL = re.compile(r"(?:^|\s)\S*python (?:\.\./fedseg/)?(tools/\S+\.py.*)$")
COMMAND = re.compile(r"^(?:\S*bin/)?fedseg (.*)$")
MODULE = re.compile(r"python -m (fedseg[\w.]*)")
# configs that a reader writes: files of the pages, and placeholders
USERS = (*(b.name for b in all_blocks() if b.name), "data/", "CONFIG", "$@")
USERS += ("data/pets/own_pets.py", "halfway/", "small_logits/", "my_scenes/")  # a command writes it
KNOWN = re.compile(
    r"(\S*bin/)?fedseg |\S*python\d?(\.\d+)? |make|export |for |done|git |cd |pip |\S*pip "
    r"|cp -r |rm |xz |OPTIONS=|OMP_|tensorboard |\S*[\w.]+="
)


def unrolled(block: Block) -> list[str]:
    """The commands of a block with the variables of its loops replaced by each of their values."""
    lines = [line.replace("$OPTIONS", "train_cfg.max_rounds=1") for line in commands(block)]
    for line in tuple(lines):
        for name, values in LOOP.findall(line):
            some = [(other, v) for other in lines for v in values.split() if f"${name}" in other]
            lines = [other for other in lines if f"${name}" not in other]
            lines += [other.replace(f"${name}", value) for other, value in some]
    return [line.removesuffix(" &") for line in lines]


def all_commands() -> list[str]:
    return [line for block in all_blocks() for line in unrolled(block)]


@pytest.mark.usefixtures("configs_read_once")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_fedseg_take_the_options(page, monkeypatch, tmp_path):
    """In an empty folder, as after an installation from the wheel."""
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        for match in filter(None, map(COMMAND.search, unrolled(block))):
            arguments = parse(f"fedseg {match[1]}")
            if match[1].startswith("train ") and not str(arguments.config).startswith(USERS):
                compose_or_fail(match[1], arguments.config, arguments.methods)


def compose_or_fail(line: str, config: str, methods: list[str]) -> None:
    """A setting with methods; those of files that a reader writes are left out."""
    shipped = [method for method in methods if not method.startswith((*USERS, "$"))]
    try:
        compose(setting_file(config), tuple(shipped))
    except ConfigError as error:
        pytest.fail(f"$ {line}\n{error}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tools_take_the_options_and_configs_exist(page):
    for block in blocks(page):
        for match in filter(None, map(TOOL.search, unrolled(block))):
            parse(f"python {match[1]}")
            for config in re.findall(r"\bconfigs/\S+\.py", match[1]):
                assert (ROOT / config).is_file(), f"{page.name}: {match[0]}"


@pytest.mark.usefixtures("configs_read_once")
def test_every_run_of_a_sweep_composes():
    """Its methods go together, what a grid changes is there, and no two runs share a folder."""
    composed = functools.cache(compose)
    sweeps = [line for line in all_commands() if "fedseg sweep" in line]
    made: dict[tuple, tuple] = {}  # (work dir, name, values) -> what else decides a run
    for line in sweeps:
        asked = parse(line[line.index("fedseg sweep") :])
        rest = (tuple(sorted(asked.options)), asked.amp)
        for path, methods in itertools.product(asked.configs, asked.methods or [[]]):
            if str(path).startswith(USERS):
                continue
            try:
                config = composed(setting_file(path), tuple(methods))
            except ConfigError as error:
                pytest.fail(f"$ {line}\n{error}")
            for option in (*asked.options, *itertools.chain(*asked.grid)):
                assert has_place(config, option.partition("=")[0]), f"{path} {methods}: {option}"
            for values in itertools.product(*asked.grid):
                key = (asked.work_dir, config.experiment_name, values)
                assert made.setdefault(key, rest) == rest, f"{key}: two commands, two runs"
    assert len(made) > 1000


def has_place(config: Config, key: str) -> bool:
    """Whether a config has the dict in which an option sets a value."""
    *outer, _ = key.removeprefix("model.weights.").split(".")  # that dict is new
    for name in outer:
        config = config.get(name) if hasattr(config, "get") else None
    return isinstance(config, dict | Config)


def test_make_knows_every_target():
    """``make -n`` reads the Makefile and says what it would do."""
    lines = {line for line in all_commands() if line.startswith("make ")}
    assert len(lines) > 3
    assert "$(MAKE)" not in (ROOT / "Makefile").read_text(encoding="utf-8"), "it would be run"
    for line in sorted(lines):
        done = subprocess.run(
            [*line.split(), "--dry-run"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 and done.stdout, f"$ {line}\n{done.stderr}"


def test_modules_that_are_run_exist():
    for name in {name for line in all_commands() for name in MODULE.findall(line)}:
        assert importlib.util.find_spec(name), name


def test_every_command_is_of_a_known_kind():
    for block in all_blocks():
        for line in commands(block):
            is_prose = block.language == "" and not block.text.startswith("python")
            assert KNOWN.match(line) or is_prose, f"{block.page.name}: {line}"


def test_an_option_that_does_not_exist_is_noticed():
    with pytest.raises(AssertionError, match="--no-such-option"):
        parse("python tools/train.py configs/demo.py --no-such-option")
