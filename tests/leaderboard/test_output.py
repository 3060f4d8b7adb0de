"""The board as text and files: every value is there, published numbers are marked."""

import csv
import io
import json

import pytest
import toyresults
from rich.console import Console
from toyresults import CIFAR, RAINY, cifar, idda

from fedseg.leaderboard.board import build_board
from fedseg.leaderboard.output import print_board, to_csv, to_json, to_markdown
from fedseg.leaderboard.page import write_board
from fedseg.runs.run_files import read_runs
from fedseg.runs.tables import markdown_text

TARGET = f"{CIFAR}_traffic"


@pytest.fixture
def board(tmp_path):
    """Of two seeds, a run that misses its target, one of rendered images, a file that is no run."""
    rendered = idda(20.125, experiment_sha256="d" * 64, name="demo (x)")
    missing = cifar(40.0)
    runs = (idda(52.0, seed=0), idda(53.0, seed=1), missing, toyresults.synthetic(rendered))
    for number, content in enumerate((*runs, {"accuracy": 1})):
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
    assert "20.1" in row_with(text, "20.1", "demo (x)")
    assert "synthetic data: the images are rendered" in text
    assert "Not comparable: IDDA, rendered images" in text
    assert "is not a results.json of fedseg" in text
    assert "Cityscapes" not in text
    assert "Cityscapes, uniform clients" in printed(board, everything=True)


def test_the_decisive_reason_is_one_line_and_the_others_are_asked_for(tmp_path):
    short = cifar(40.0, rounds=500, completed_rounds=500)
    short["config"]["train_dataloader"]["batch_size"] = 7
    short["config"]["val_evaluator"] = {"type": "Accuracy", "prefix": "own"}
    toyresults.write(tmp_path / "short", short)
    rendered = toyresults.synthetic(idda(20.0, rounds=30, completed_rounds=30))
    toyresults.write(tmp_path / "rendered", rendered)
    board = build_board(*read_runs([tmp_path]))
    decisive = {"CIFAR-10": "train_cfg.max_rounds: 500, in ", "IDDA, ": "synthetic data: "}
    for table in board.apart:
        (row,) = table.rows
        (start,) = (text for title, text in decisive.items() if table.title.startswith(title))
        assert row.reasons[0].startswith(start) and len(row.reasons) > 1
        text = printed(board)
        line = row_with(text, "Not comparable because: ", row.reasons[0])
        assert line.endswith(f" (and {len(row.reasons) - 1} more: fedseg leaderboard --why)")
        assert not any(reason in text for reason in row.reasons[1:])
        assert all(row_with(printed(board, why=True), reason) for reason in row.reasons)
        assert all(markdown_text(reason) in to_markdown(board) for reason in row.reasons)


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
    assert "demo (x)" in text
    assert not [line for line in tables if line.count("|") < 6]
    assert text.index("## Not comparable") > text.index("## IDDA rainy")
    assert "### IDDA, rendered images" in text
    assert "- " in text[text.index("## Messages") :]
    assert "cityscapes" not in text.lower()
    text = to_markdown(board, everything=True)
    assert "## Cityscapes, class imbalance, released protocol" in text


def test_csv_has_every_value_in_full_precision(board):
    lines = list(csv.DictReader(io.StringIO(to_csv(board.rankings))))
    rows = [row for table in board.rankings for row in (*table.rows, *table.further_rows)]
    cells = [cell for row in rows for cell in row.cells.values()]
    values = [cell.value for cell in cells if cell.value is not None]
    assert sorted(float(line["value"]) for line in lines if line["value"]) == sorted(values)
    assert "not_reached" in {line["status"] for line in lines}
    wanted = {"kind": "run", "benchmark": RAINY, "column": "unseen"}
    (own,) = (line for line in lines if wanted.items() <= line.items())
    assert float(own["value"]) == 52.5 and float(own["std"]) == pytest.approx(0.5**0.5)
    assert own["rank"] == "2" and own["seeds"] == "0 1" and own["metric"] == "unseen/mIoU"
    damaged = [line for line in lines if line["doubt"]]
    assert damaged and not any(line["rank"] for line in damaged)
    assert "demo (x)" not in to_csv(board.rankings)
    lines = list(csv.DictReader(io.StringIO(to_csv(board.apart, "reasons"))))
    assert {line["experiment"] for line in lines} == {"demo (x)"}
    assert {line["kind"] for line in lines} == {"run"}
    assert all(line["reasons"].startswith("synthetic data") for line in lines)
    assert [line["value"] for line in lines if line["metric"] == "unseen/mIoU"] == ["20.125"]


def test_json_has_the_whole_board(board):
    content = json.loads(json.dumps(to_json(board), allow_nan=False))
    assert content["groups"][:3] == ["Cityscapes", "IDDA", "CamVid"]
    assert {b["group"] for b in content["benchmarks"]} == set(content["groups"])
    by_id = {b["id"]: b for b in content["benchmarks"]}
    rainy = by_id[RAINY]
    assert rainy["setting"]["split"] == {"kind": "heterogeneous", "shift": "rainy"}
    assert rainy["setting"]["protocol"]["train_dataloader.batch_size"] == 16
    assert [c["key"] for c in rainy["further_columns"]] == ["parameters", "seconds"]
    labels = {row["label"] for row in by_id["cifar10_a100_c5_cnn"]["further_rows"]}
    assert "FedGloSS, without ADMM" in labels
    assert [c["key"] for c in rainy["columns"]] == ["unseen", "seen", "seen_by_domain"]
    (own,) = (row for row in rainy["rows"] if row["kind"] == "run")
    assert own["cells"]["unseen"]["count"] == 2 and own["seeds"] == [0, 1]
    run = content["runs"][own["runs"][0]]
    assert run["curves"]["figures"]["unseen/mIoU"] == [26.0, *[52.0] * 20]
    assert run["final"]["unseen"]["mIoU"] == 52 and run["config"]["seed"] == 0
    assert run["folder"].endswith("runs/0")
    papers = {row["paper"] for b in content["benchmarks"] for row in b["rows"]}
    assert papers <= {*content["papers"], ""}
    assert by_id[TARGET]["target"] == 59.9 and not by_id[TARGET]["columns"][0]["higher"]
    assert [table["title"] for table in content["own"]] == [
        *("CIFAR-10", "IDDA", "IDDA, rendered images")
    ]
    (apart,) = content["own"][-1]["rows"]
    assert apart["reasons"] and apart["closest"] == RAINY
    assert all(
        id_ in content["runs"] for t in content["own"] for r in t["rows"] for id_ in r["runs"]
    )
    assert len(content["messages"]) == 1


def test_files_are_written_whole(board, tmp_path):
    folder = tmp_path / "out" / "board"
    paths = write_board(board, folder)
    names = ["leaderboard.md", "leaderboard.csv", "not_comparable.csv", "leaderboard.json"]
    assert [path.name for path in paths] == [*names, "index.html"]
    assert sorted(folder.iterdir()) == sorted([*paths, folder / "page"])
    assert json.loads(paths[3].read_text()) == json.loads(json.dumps(to_json(board)))
    assert paths[0].read_text() == to_markdown(board)
