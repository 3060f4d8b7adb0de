"""The board as text: nothing is lost, published numbers are marked, files are whole."""

import csv
import io
import json

import pytest
import toyresults
from rich.console import Console

from fedseg.leaderboard.board import build_board, read_runs
from fedseg.leaderboard.output import (
    apart_to_csv,
    print_board,
    shown,
    to_csv,
    to_json,
    to_markdown,
    write_board,
)

RAINY = "idda_rainy_heterogeneous"
TARGET = "cifar10_a0_c5_cnn_traffic"


def idda(unseen: float, **changes):
    return toyresults.results(RAINY, {"unseen/mIoU": unseen, "seen/mIoU": 60.0}, **changes)


@pytest.fixture
def board(tmp_path):
    """Two seeds of one experiment, a run whose target is not reached, one of rendered images."""
    contents = (
        idda(52.0, seed=0),
        idda(53.0, seed=1),
        toyresults.results("cifar10_a0_c5_cnn", {"test/accuracy": 40.0}),
        toyresults.synthetic(idda(20.125, experiment_sha256="d" * 64, name="demo|x")),
        {"accuracy": 1},
    )
    for number, content in enumerate(contents):
        toyresults.write(tmp_path / "runs" / str(number), content)
    return build_board(*read_runs([tmp_path / "runs"]))


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


def test_the_terminal_shows_figures_seeds_sources_and_reasons(board):
    text = printed(board)
    assert "IDDA rainy, heterogeneous clients" in text
    row = row_with(text, f"{RAINY}_fedavg", "52.50 ± 0.71")
    assert "│  2 │ FedAvg " in row and "│ 0, 1 " in row and "57.2 MiB" in row
    row = row_with(text, "FedAvg + SiloBN, LAB", "53.99")
    assert "│  1 │" in row and "published" in row and "FedDrive published mIoU" in row
    assert "48.09 ?" in row_with(text, "48.09")
    assert "?: in doubt, nothing is ranked against it" in text
    assert "not reached" in row_with(text, "cifar10_a0_c5_cnn_fedavg", "not reached")
    assert "20.1" in row_with(text, "20.1", "demo|x")
    assert "Apart because: synthetic data: the images are rendered" in text
    assert "Not comparable: rendered images, like IDDA rainy" in text
    assert "is not a results.json of fedseg" in text
    assert "Cityscapes" not in text
    assert "Cityscapes, uniform clients" in printed(board, everything=True)


def test_an_empty_board_says_so(tmp_path):
    text = printed(build_board(*read_runs([tmp_path])))
    assert "There is no row." in text and "no results.json was found" in text


def test_markdown_is_a_table_for_each_benchmark(board):
    text = to_markdown(board)
    lines = text.splitlines()
    assert lines[0] == "# Leaderboard"
    at = lines.index("## IDDA rainy, heterogeneous clients")
    head = [cell.strip() for cell in lines[at + 2].strip("|").split("|")]
    assert head == [
        *("rank", "method", "unseen (%)", "seen standard (%)", "seen by_domain (%)"),
        *("seeds", "traffic", "source"),
    ]
    assert lines[at + 3].count("---:") == 3
    assert lines[at + 4].startswith("| 1 | FedAvg + SiloBN, LAB | **53.99** | **65.90** |")
    assert lines[at + 5].startswith("| 2 | FedAvg | 52.50 ± 0.71 | 60.00 ± 0.00 | - | 0, 1 |")
    tables = [line for line in lines if line.startswith("| ")]
    assert "demo\\|x" in text  # a mark inside a cell does not end it
    assert not [line for line in tables if line.count("|") < 6]
    assert text.index("## Not comparable with published numbers") > text.index("## IDDA rainy")
    assert "### Rendered images, like IDDA rainy, heterogeneous clients" in text
    assert "- " in text[text.index("## Left out") :]
    assert "cityscapes" not in text.lower()
    assert "## Cityscapes, class imbalance" in to_markdown(board, everything=True)


def test_csv_has_every_figure_in_full_precision(board):
    lines = list(csv.DictReader(io.StringIO(to_csv(board))))
    expected = sum(len(r.rows) * len(r.benchmark.columns) for r in board.rankings)
    assert len(lines) == expected > 1000
    (own,) = (
        line
        for line in lines
        if (line["kind"], line["benchmark"], line["column"]) == ("run", RAINY, "unseen")
    )
    assert float(own["value"]) == 52.5 and float(own["std"]) == pytest.approx(0.5**0.5)
    assert own["rank"] == "2" and own["seeds"] == "0 1" and own["figure"] == "unseen/mIoU"
    damaged = [line for line in lines if line["doubt"]]
    assert damaged and not any(line["rank"] for line in damaged)


def test_csv_keeps_runs_that_are_apart_away_from_published_numbers(board):
    assert "demo|x" not in to_csv(board)
    lines = list(csv.DictReader(io.StringIO(apart_to_csv(board))))
    assert {line["experiment"] for line in lines} == {"demo|x"}
    assert {line["kind"] for line in lines} == {"run"}
    assert lines[0]["value"] == "20.125" and lines[0]["reasons"].startswith("synthetic data")


def test_json_has_what_a_page_needs(board):
    content = json.loads(json.dumps(to_json(board), allow_nan=False))
    assert content["version"] == 1
    assert content["groups"][:3] == ["Cityscapes", "IDDA", "CamVid"]
    assert {b["group"] for b in content["benchmarks"]} == set(content["groups"])
    by_id = {b["id"]: b for b in content["benchmarks"]}
    rainy = by_id[RAINY]
    assert rainy["setting"]["split"] == {"kind": "heterogeneous", "shift": "rainy"}
    assert [c["key"] for c in rainy["columns"]] == ["unseen", "seen", "seen_by_domain"]
    (own,) = (row for row in rainy["rows"] if row["kind"] == "run")
    assert own["cells"]["unseen"]["count"] == 2 and own["seeds"] == [0, 1]
    run = content["runs"][own["runs"][0]]
    assert run["curves"]["figures"]["unseen/mIoU"] == [26.0, 52.0]
    assert run["final"]["unseen"]["mIoU"] == 52 and run["config"]["seed"] == 0
    assert run["folder"].endswith("runs/0")
    assert {row["paper"] for b in content["benchmarks"] for row in b["rows"]} <= {
        *content["papers"],
        "",
    }
    assert by_id[TARGET]["target"] == 59.9 and not by_id[TARGET]["columns"][0]["higher"]
    (apart,) = content["apart"]
    assert apart["synthetic"] and apart["closest"] == RAINY
    assert all(id_ in content["runs"] for row in apart["rows"] for id_ in row["runs"])
    assert len(content["messages"]) == 1


def test_files_are_written_whole(board, tmp_path):
    paths = write_board(board, tmp_path / "out" / "board")
    assert [path.name for path in paths] == [
        "leaderboard.md",
        "leaderboard.csv",
        "not_comparable.csv",
        "leaderboard.json",
    ]
    assert sorted(tmp_path.joinpath("out", "board").iterdir()) == sorted(paths)
    assert json.loads(paths[-1].read_text()) == json.loads(json.dumps(to_json(board)))
    before = paths[0].read_text()
    write_board(board, tmp_path / "out" / "board")
    assert paths[0].read_text() == before == to_markdown(board)


def test_what_is_shown(board):
    assert [r.benchmark.id for r in shown(board)] == [RAINY, "cifar10_a0_c5_cnn", TARGET]
    assert len(shown(board, everything=True)) > 50
