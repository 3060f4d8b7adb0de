"""Every command of the documentation exists: tools, their options, configs, targets of make."""

import argparse
import importlib.util
import re
import shlex
import sys
from pathlib import Path

import command_line
import pytest
import toyresults
from doc_pages import PAGES, ROOT, Block, all_blocks, blocks, commands

LOOP = re.compile(r"for (\w+) in ([\w ]+); do")
TOOL = re.compile(r"(?:^|\s)(?:\S*python\s+)?(?:\.\./fedseg/)?(tools/\w+\.py)((?:\s.*)?)$")
MODULE = re.compile(r"python -m (fedseg[\w.]*)")


class Parsed(Exception):
    """The arguments were accepted."""


def found() -> list[tuple[Block, str]]:
    return [(block, line) for block in all_blocks() for line in commands(block)]


def parse(tool: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    """Run a tool up to the point where its arguments are parsed."""
    spec = importlib.util.spec_from_file_location("a_tool", ROOT / tool)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    original = argparse.ArgumentParser.parse_args
    seen = []

    def stop(parser: argparse.ArgumentParser, *args, **kwargs) -> None:
        seen.append(original(parser, *args, **kwargs))
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    monkeypatch.setattr(sys, "argv", [tool, *arguments])
    with pytest.raises(Parsed):
        module.main()
    return seen[0]


def unrolled(block: Block) -> list[str]:
    """The commands of a block with the variables of its loops replaced by each of their values."""
    lines = [line.replace("$OPTIONS", "train_cfg.max_rounds=1") for line in commands(block)]
    for line in tuple(lines):
        for name, values in LOOP.findall(line):
            some = [(other, v) for other in lines for v in values.split() if f"${name}" in other]
            lines = [other for other in lines if f"${name}" not in other]
            lines += [other.replace(f"${name}", value) for other, value in some]
    return lines


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tools_take_the_options_and_configs_exist(page, monkeypatch, capsys):
    for block in blocks(page):
        for line in unrolled(block):
            match = TOOL.search(line)
            if match is None:
                continue
            tool, rest = match.groups()
            assert (ROOT / tool).is_file(), f"{page.name}: {line}"
            arguments = shlex.split(rest)
            try:
                with monkeypatch.context() as patch:
                    parse(tool, arguments, patch)
            except SystemExit:
                pytest.fail(f"{page.name}: {line}\n{capsys.readouterr().err}")
            for argument in arguments:
                if argument.startswith("configs/"):
                    assert (ROOT / argument).is_file(), f"{page.name}: {line}"


def test_targets_of_make_and_modules_exist():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    counted = 0
    for block, line in found():
        if line.startswith("make"):
            asked = [word for word in line.split()[1:] if "=" not in word]
            assert asked and set(asked) <= set(targets), f"{block.page.name}: {line}"
            counted += 1
        for module in MODULE.findall(line):
            assert importlib.util.find_spec(module), f"{block.page.name}: {line}"
            counted += 1
    assert counted > 3


def test_every_command_is_of_a_known_kind():
    known = r"(\S*python\d?(\.\d+)? |make|export |for |done|git |cd |pip |\S*pip |OPTIONS=|OMP_)"
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
    wanted = "python tools/leaderboard.py work_dirs --all"
    assert wanted in {line for _, line in found()}
    run = toyresults.results("cifar10_a005_c5_cnn", {"test/accuracy": 71.5})
    toyresults.write(tmp_path / "work_dirs" / "fedavg", run)
    done = command_line.run("leaderboard.py", *shlex.split(wanted)[2:], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "71.50" in done.stdout and "69.24" in done.stdout  # beside the published FedAvg
