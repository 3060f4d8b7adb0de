"""Commands that help texts, errors and files of the program give."""

import re
import shutil

import given
import pytest
from command_lines import advised_commands, parse, printed_commands, small
from named_options import help_of

from fedseg.commands.main import COMMANDS
from fedseg.data_prep.data_sets import DATA_SETS, command_of
from fedseg.names import MADE_BY, PREPARED_BY, made_by

PREPARE = [f"prepare {name}" for name in DATA_SETS if command_of(name) == name]
HELP = [*COMMANDS, *PREPARE, "leaderboard verify"]


def test_examples_of_every_help_are_read_by_the_command_itself():
    examples = []
    for command in HELP:
        text = re.sub(r"\\\n\s*", "", help_of(command))  # continued lines
        examples += printed_commands(text)
    assert len(examples) > 40
    for line in examples:
        parse(line)


@pytest.mark.parametrize("root", [*MADE_BY, "elsewhere"])
def test_what_makes_missing_data_is_a_command(root):
    """As the error of a missing data root says it."""
    for tool in PREPARED_BY.values():
        command = made_by(tool, root)
        if command.startswith("fedseg "):
            parse(command)


def test_missing_data_are_made_by_the_command_in_the_message(terminal):
    message = terminal.fail("fedseg train demo_shapes --dry-run")
    (prepare,) = advised_commands(message)
    (train,) = printed_commands(terminal.run(prepare))
    terminal.run(small(train))


def test_an_unfinished_run_is_continued_by_the_command_in_the_message(terminal):
    given.shapes(terminal.folder)
    terminal.run(small("fedseg train demo_shapes --work-dir run"))
    (terminal.folder / "run" / "results.json").unlink()
    (resume,) = advised_commands(terminal.fail("fedseg share run --out run.zip"))
    assert resume == "fedseg train CONFIG --work-dir run --resume"
    terminal.run(small(resume.replace("CONFIG", "demo_shapes")))
    assert (terminal.folder / "run" / "results.json").is_file()


def test_a_run_is_tested_by_the_command_on_its_last_screen(terminal):
    given.shapes(terminal.folder)
    (command,) = printed_commands(terminal.run(small("fedseg train demo_shapes")))
    assert "test_results.json" in terminal.run(command)


def test_the_card_of_a_shared_run_says_how_to_use_it(terminal):
    given.shapes(terminal.folder)
    given.photograph(terminal.folder / "photo.jpg")
    terminal.run(small("fedseg train demo_shapes"))
    terminal.run("fedseg share work_dirs/demo_shapes --out shared.zip")
    shutil.unpack_archive(terminal.folder / "shared.zip", terminal.folder / "unpacked")
    card = (terminal.folder / "unpacked" / "README.md").read_text(encoding="utf-8")
    lines = printed_commands(card)
    assert len(lines) == 2
    for line in lines:
        terminal.run(line.replace("FILE.zip", "shared.zip"))
