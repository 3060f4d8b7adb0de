"""Every command of the documentation exists: tools, their options, configs, targets of make."""

import argparse
import functools
import importlib.util
import itertools
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import command_line
import pytest
import toyresults
from doc_pages import PAGES, ROOT, Block, all_blocks, blocks, commands
from mmengine.config import Config

from fedseg.config.methods import SLOTS, compose, setting_file
from fedseg.errors import ConfigError

LOOP = re.compile(r"for (\w+) in ([\w ]+); do")
TOOL = re.compile(r"(?:^|\s)(?:\S*python\s+)?(?:\.\./fedseg/)?(tools/[\w/]+\.py)((?:\s.*)?)$")
COMMAND = re.compile(r"^(?:\S*bin/)?fedseg (.*)$")
# configs that a reader writes: files of the pages, and placeholders
USERS = (*(b.name for b in all_blocks() if b.name), "even_shapes.py", "data/", "CONFIG", "$@")
USERS += ("data/pets/own_pets.py",)  # what a command writes
MODULE = re.compile(r"python -m (fedseg[\w.]*)")


class Parsed(Exception):
    """The arguments were accepted."""


def found() -> list[tuple[Block, str]]:
    return [(block, line) for block in all_blocks() for line in commands(block)]


def parse(tool: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    """Run a script up to the point where its arguments are parsed."""
    original = argparse.ArgumentParser.parse_args
    seen = []

    def stop(parser: argparse.ArgumentParser, *args, **kwargs) -> None:
        seen.append(original(parser, *args, **kwargs))
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    monkeypatch.setattr(sys, "argv", [tool, *arguments])
    with pytest.raises(Parsed):
        runpy.run_path(str(ROOT / tool), run_name="__main__")
    return seen[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_fedseg_take_the_options(page, monkeypatch, capsys, tmp_path):
    """In an empty folder, as after an installation from the wheel."""
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        for match in filter(None, map(COMMAND.search, unrolled(block))):
            try:
                with monkeypatch.context() as patch:
                    asked = parse("fedseg/__main__.py", words(match[1]), patch)
            except SystemExit:
                pytest.fail(f"{page.name}: {match[0]}\n{capsys.readouterr().err}")
            if match[1].startswith(("train ", "sweep ")):
                for config in map(str, getattr(asked, "configs", None) or [asked.config]):
                    if not config.startswith(USERS):
                        setting_file(config)


def unrolled(block: Block) -> list[str]:
    """The commands of a block with the variables of its loops replaced by each of their values."""
    lines = [line.replace("$OPTIONS", "train_cfg.max_rounds=1") for line in commands(block)]
    for line in tuple(lines):
        for name, values in LOOP.findall(line):
            some = [(other, v) for other in lines for v in values.split() if f"${name}" in other]
            lines = [other for other in lines if f"${name}" not in other]
            lines += [other.replace(f"${name}", value) for other, value in some]
    return lines


def words(line: str) -> list[str]:
    """The arguments as a shell splits them; only bash knows about braces."""
    line = line.removesuffix(" &")
    if "{" not in line:
        return shlex.split(line)
    script = f"set -f; printf '%s\\n' {line}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tools_take_the_options_and_configs_exist(page, monkeypatch, capsys):
    for block in blocks(page):
        for line in unrolled(block):
            match = TOOL.search(line)
            if match is None:
                continue
            tool, rest = match.groups()
            assert (ROOT / tool).is_file(), f"{page.name}: {line}"
            arguments = words(rest)
            try:
                with monkeypatch.context() as patch:
                    parse(tool, arguments, patch)
            except SystemExit:
                pytest.fail(f"{page.name}: {line}\n{capsys.readouterr().err}")
            for argument in arguments:
                if argument.startswith("configs/"):
                    assert (ROOT / argument).is_file(), f"{page.name}: {line}"


@pytest.mark.usefixtures("configs_read_once")
def test_every_run_of_a_sweep_composes(monkeypatch):
    """Its methods go together, what a grid changes is there, and no two runs share a folder."""
    composed = functools.cache(compose)
    lines = [line for block in all_blocks() for line in unrolled(block)]
    sweeps = [line.split("fedseg sweep", 1)[1] for line in lines if "fedseg sweep" in line]
    made: dict[tuple, tuple] = {}  # (work dir, name, values) -> what else decides a run
    for line in sweeps:
        with monkeypatch.context() as patch:
            asked = parse("fedseg/__main__.py", ["sweep", *words(line)], patch)
        rest = (tuple(sorted(asked.options)), asked.amp)
        for path, methods in itertools.product(asked.configs, asked.methods or [[]]):
            try:
                config = composed(setting_file(path), tuple(methods))
            except ConfigError as error:
                pytest.fail(f"fedseg sweep{line}\n{error}")
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


def test_targets_of_make_modules_and_slots_exist():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    made = [(block, line.split()[1:]) for block, line in found() if line.startswith("make")]
    modules = [(block, name) for block, line in found() for name in MODULE.findall(line)]
    assert len(made) + len(modules) > 3
    for block, words in made:
        asked = {word for word in words if "=" not in word}
        assert asked and asked <= set(targets), f"{block.page.name}: make {asked}"
    for block, name in modules:
        assert importlib.util.find_spec(name), f"{block.page.name}: {name}"
    page = (ROOT / "docs" / "own_algorithm.md").read_text(encoding="utf-8")
    assert {*re.findall(r"`(\w+)`", page.split("The slots are")[1].split(";")[0])} == {*SLOTS}


def test_every_command_is_of_a_known_kind():
    known = r"((\S*bin/)?fedseg |\S*python\d?(\.\d+)? |make|export |for |done|git |cd |pip |\S*pip "
    known += r"|cp -r |rm |xz |OPTIONS=|OMP_|tensorboard |\S*[\w.]+=)"
    for block, line in found():
        if not re.match(known, line):
            assert block.language == "" and not block.text.startswith("python"), (
                f"{block.page.name}: {line}"
            )


def test_an_option_that_does_not_exist_is_noticed(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        parse("tools/train.py", ["configs/demo.py", "--no-such-option"], monkeypatch)
    capsys.readouterr()


def test_the_commands_of_the_leaderboard_run(tmp_path: Path):
    wanted = "fedseg leaderboard work_dirs --all"
    assert wanted in {line for _, line in found()}
    run = toyresults.results("cifar10_a005_c5_cnn", {"test/accuracy": 71.5})
    toyresults.write(tmp_path / "work_dirs" / "fedavg", run)
    done = command_line.run("leaderboard.py", *shlex.split(wanted)[2:], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "71.50" in done.stdout and "69.24" in done.stdout  # beside the published FedAvg
