"""The board in words: every value is there, published numbers are marked."""

import pytest
import toyresults
from rich.console import Console

from fedseg.leaderboard.board import build_board
from fedseg.leaderboard.output import print_board, to_markdown
from fedseg.runs.run_files import read_runs

RAINY = "idda_rainy_heterogeneous"


@pytest.fixture
def board(tmp_path):
    return build_board(*read_runs([toyresults.write_four(tmp_path)]))


def printed(board, **options) -> str:
    console = Console(width=170, force_terminal=False)
    with console.capture() as capture:
        print_board(board, console, **options)
    return capture.get()


def row_with(text: str, *words: str) -> str:
    """The one line that holds all of some words."""
    found = [line for line in text.splitlines() if all(word in line for word in words)]
    assert len(found) == 1, found
    return found[0]


def test_the_terminal_shows_values_seeds_sources_and_reasons(board):
    text = printed(board)
    assert "IDDA rainy, heterogeneous clients" in text
    row = row_with(text, f"{RAINY}_fedavg", "52.50 ± 0.71")
    assert row.split()[:2] == ["2", "FedAvg"] and " 0, 1 " in row and "61.0 MiB" in row
    row = row_with(text, "FedAvg + SiloBN, LAB", "53.99")
    assert row.split()[0] == "1" and "published" in row and "FedDrive published mIoU" in row
    paper = printed(board, everything=True)
    assert "48.09 ?" in row_with(paper, "48.09")
    assert "?: in doubt" in paper
    assert "not reached" in row_with(text, "cifar10_a0_c5_cnn_fedavg", "not reached")
    assert "20.1" in row_with(text, "20.1", "demo|x")
    assert "synthetic data: the images are rendered" in text
    assert "Not comparable: rendered images, like IDDA rainy" in text
    assert "is not a results.json of fedseg" in text
    assert "Cityscapes" not in text
    assert "Cityscapes, uniform clients" in printed(board, everything=True)


def test_what_is_not_ranked_is_printed_when_it_is_asked_for(board):
    for plain, more in (
        (printed(board), printed(board, further=True)),
        (to_markdown(board), to_markdown(board, further=True)),
    ):
        assert "Centralized" not in plain and "λ max" not in plain
        assert "s per round" in more and "parameters (M)" in more
        assert "FedAvg + SWA, SWA" in more and "Centralized + SAM" in more
        assert "λ max / λ 5" not in more  # no row of these tables has it
        assert len(more.splitlines()) > len(plain.splitlines())


def test_an_empty_board_is_printed_with_its_messages(tmp_path):
    assert "no results.json was found" in printed(build_board(*read_runs([tmp_path])))


def test_markdown_is_a_table_for_each_benchmark(board):
    text = to_markdown(board)
    lines = text.splitlines()
    assert lines[0] == "# Leaderboard"
    at = lines.index("## IDDA rainy, heterogeneous clients, released protocol")
    head = [cell.strip() for cell in lines[at + 2].strip("|").split("|")]
    assert head == [
        *("rank", "method", "unseen (%)", "seen standard (%)", "seen by\\_domain (%)"),
        *("seeds", "traffic", "source"),
    ]
    assert lines[at + 3].count("---:") == 5
    assert lines[at + 4].startswith(
        "| 1 | FedAvg + SiloBN, LAB | **53.99 ± 0.79** | **65.90 ± 0.55** |"
    )
    assert lines[at + 5].startswith("| 2 | FedAvg | 52.50 ± 0.71 | 60.00 ± 0.00 | - | 0, 1 |")
    tables = [line for line in lines if line.startswith("| ")]
    assert "demo\\|x" in text  # a bar inside a cell does not end it
    assert not [line for line in tables if line.count("|") < 6]
    assert text.index("## Not comparable") > text.index("## IDDA rainy")
    assert "### Rendered images, like IDDA rainy, heterogeneous clients" in text
    assert "- " in text[text.index("## Messages") :]
    assert "cityscapes" not in text.lower()
    assert "## Cityscapes, class imbalance, released protocol" in to_markdown(
        board, everything=True
    )
