"""The board as text and files: every value is there, published numbers are marked."""

import csv
import io
import re

import pytest
import toyresults
from rich.console import Console
from toyresults import CIFAR, RAINY, cifar, idda

from fedseg.leaderboard.board import build_board
from fedseg.leaderboard.output import print_board, to_csv, to_latex, to_markdown
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
    assert "Your runs: idda_rainy, rendered images" in text
    assert "is not a results.json of fedseg" in text
    assert "Cityscapes" not in text
    assert "Cityscapes, uniform clients" in printed(board, everything=True)


def test_the_first_reason_is_one_line_and_the_others_are_asked_for(tmp_path):
    short = cifar(40.0, rounds=500, completed_rounds=500)
    short["config"]["train_dataloader"]["batch_size"] = 7
    short["config"]["val_evaluator"] = {"type": "Accuracy", "prefix": "own"}
    toyresults.write(tmp_path / "short", short)
    rendered = toyresults.synthetic(idda(20.0, rounds=30, completed_rounds=30))
    toyresults.write(tmp_path / "rendered", rendered)
    board = build_board(*read_runs([tmp_path]))
    text = printed(board)
    (decisive, *others), reasons = (board.records(table)[0]["reasons"] for table in board.apart)
    assert decisive.startswith("synthetic data: ") and not others  # it is enough
    assert row_with(text, "Not comparable because: ", decisive).endswith(decisive)
    assert reasons[0].startswith("train_cfg.max_rounds: 500, in ") and len(reasons) == 3
    line = row_with(text, "Not comparable because: ", reasons[0])
    assert line.endswith(" (and 2 more: fedseg leaderboard --why)")
    assert not any(reason in text for reason in reasons[1:])
    assert all(row_with(printed(board, why=True), reason) for reason in reasons)
    assert all(markdown_text(reason) in to_markdown(board) for reason in reasons)


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


def test_runs_with_odd_domains_or_without_a_metric_are_written(tmp_path):
    """A domain may have the name of another column."""
    own = {"data__train__dataset": "Blobs", "setting": None}
    toyresults.write(tmp_path / "none", toyresults.results(CIFAR, {}, **own, name="nothing"))
    odd = {f"{name}/accuracy": 7.0 for name in ("rank", "method", "seeds", "experiment")}
    content = toyresults.results(CIFAR, odd, **own, name="odd", experiment_sha256="1" * 64)
    toyresults.write(tmp_path / "odd", content)
    board = build_board(*read_runs([tmp_path]))
    assert row_with(printed(board), "odd", "1 ", "FedAvg").count("7.00") == 4
    assert row_with(printed(board), "nothing", "FedAvg", "10,000")
    assert "parameters (M)" in printed(board, further=True)
    assert "**7.00**" in row_with(to_markdown(board, further=True), "odd", "**7.00**")
    assert r"experiment (\%)" in to_latex(board) and "nothing" not in to_latex(board)
    assert write_board(board, tmp_path / "board")[-1].is_file()


def test_an_empty_board_is_printed_with_its_messages(tmp_path):
    assert "no results.json was found" in printed(build_board(*read_runs([tmp_path])))


def cells_of(line: str) -> list[str]:
    """The cells of a line of a table in Markdown."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_markdown_is_a_table_for_each_benchmark(board):
    text = to_markdown(board)
    lines = text.splitlines()
    assert lines[0] == "# Leaderboard"
    at = lines.index("## IDDA rainy, heterogeneous clients, released protocol")
    assert cells_of(lines[at + 2]) == [
        *("rank", "method", "unseen (%)", "seen standard (%)", "seen by\\_domain (%)"),
        *("seeds", "traffic", "source"),
    ]
    assert lines[at + 3].count("-:") == 5
    first = cells_of(lines[at + 4])
    assert first[:4] == ["1", "FedAvg + SiloBN, LAB", "**53.99 ± 0.79**", "**65.90 ± 0.55**"]
    second = cells_of(lines[at + 5])
    assert second[:6] == ["2", "FedAvg", "52.50 ± 0.71", "60.00 ± 0.00", "-", "0, 1"]
    assert "demo (x)" in text
    assert text.index("## Your runs") > text.index("## IDDA rainy")
    assert "### idda\\_rainy, rendered images" in text
    assert "- " in text[text.index("## Messages") :]
    assert "cityscapes" not in text.lower()
    text = to_markdown(board, everything=True)
    assert "## Cityscapes, class imbalance, released protocol" in text


def test_csv_has_every_value_in_full_precision(board):
    lines = list(csv.DictReader(io.StringIO(to_csv(board, board.benchmarks))))
    ids = {benchmark.id for benchmark in board.benchmarks}
    values = board.values[board.values["benchmark"].isin(ids)]["value"].dropna()
    assert sorted(float(line["value"]) for line in lines if line["value"]) == sorted(values)
    assert "not_reached" in {line["status"] for line in lines}
    wanted = {"kind": "run", "benchmark": RAINY, "column": "unseen"}
    (own,) = (line for line in lines if wanted.items() <= line.items())
    assert float(own["value"]) == 52.5 and float(own["std"]) == pytest.approx(0.5**0.5)
    assert own["rank"] == "2" and own["seeds"] == "0 1" and own["metric"] == "unseen/mIoU"
    damaged = [line for line in lines if line["doubt"]]
    assert damaged and not any(line["rank"] for line in damaged)
    assert "demo (x)" not in to_csv(board, board.benchmarks)
    lines = list(csv.DictReader(io.StringIO(to_csv(board, board.own, reasons=True))))
    assert {line["kind"] for line in lines} == {"run"}
    (line,) = (x for x in lines if x["experiment"] == "demo (x)" and x["metric"] == "unseen/mIoU")
    assert line["value"] == "20.125" and line["rank"] == "1"
    assert line["reasons"].startswith("synthetic data")
    assert {line["reasons"] for line in lines if line["experiment"] != "demo (x)"} == {""}


def test_latex_has_methods_by_settings_with_yours_beside_published_ones(board):
    text = to_latex(board)
    tables = re.findall(r"\\begin{tabular}.*?\\end{tabular}", text, re.DOTALL)
    rainy, cifar10, communication, own = tables
    head = rainy.splitlines()[2:5]
    assert r"\multicolumn{5}{c}{IDDA rainy, heterogeneous clients, released protocol}" in head[0]
    assert r"unseen (\%)" in head[1] and r"seen by\_domain (\%)" in head[1]
    assert head[2].count("ours") == 2 and head[2].count("FedDrive") == 3
    row = row_with(rainy, "FedAvg & ")
    assert r"52.50 $\pm$ 0.71" in row
    assert r"\textbf{53.99 $\pm$ 0.79}" in row_with(rainy, "FedAvg + SiloBN, LAB")
    assert "not reached" not in communication and "40.00" in cifar10
    assert r"idda\_rainy, rendered images" in own and "20.12" in own


def test_text_of_strangers_is_text_in_latex(tmp_path):
    algorithm = {"type": r"\input{secret} & $x$ %"}
    toyresults.write(tmp_path, idda(50.0, algorithm=algorithm))
    text = to_latex(build_board(*read_runs([tmp_path])))
    assert r"\textbackslash input\{secret\} \& \$x\$ \%" in text


def test_files_are_written_whole(board, tmp_path):
    folder = tmp_path / "out" / "board"
    paths = write_board(board, folder)
    names = ["leaderboard.md", "leaderboard.csv", "your_runs.csv", "leaderboard.tex", "index.html"]
    assert [path.name for path in paths] == names
    assert sorted(folder.iterdir()) == sorted([*paths, folder / "page"])
    assert paths[0].read_text() == to_markdown(board)
    assert paths[3].read_text() == to_latex(board)
