"""Runs become rows: seeds, ranks, published numbers, what is left out and why."""

import csv
import io
import json
import os
import statistics
from typing import Any

import pandas as pd
import pytest
import toyresults
from rich.console import Console
from toyresults import CIFAR, RAINY, cifar, idda

from fedseg.leaderboard.benchmarks import FURTHER_COLUMNS, Benchmark
from fedseg.leaderboard.board import Board, build_board
from fedseg.leaderboard.output import print_board, to_csv, to_latex, to_markdown
from fedseg.leaderboard.page import render
from fedseg.leaderboard.reference import read_json, read_published
from fedseg.runs.run_files import read_runs

OTHER = {"experiment_sha256": "d" * 64, "optim_wrapper": {"type": "SAMOptimWrapper"}}
BLOBS = {"data__train__dataset": "Blobs", "setting": None}


@pytest.fixture
def board(tmp_path):
    """Writes runs, in folders by number, and builds their board."""

    def build(*contents) -> Board:
        for number, content in enumerate(contents):
            toyresults.write(tmp_path / str(number), content, 1000 + number)
        return build_board(*read_runs([tmp_path]))

    return build


def rows_of(board: Board, table: Benchmark | str) -> list[dict[str, Any]]:
    """The rows of a table, the best first: the facts of each, and in ``cells`` its lines by key."""
    if isinstance(table, str):
        (table,) = (found for found in board.benchmarks if found.id == table)
    rows: dict[int, dict[str, Any]] = {}
    for line in board.records(table):
        row = rows.setdefault(line["row"], {**line, "cells": {}})
        row["cells"][line["column"]] = line
    return list(rows.values())


def ranked_rows(board: Board, table: Benchmark | str) -> list[dict[str, Any]]:
    return [row for row in rows_of(board, table) if row["is_ranked"]]


def runs_of(board: Board, table: Benchmark | str) -> list[dict[str, Any]]:
    return [row for row in rows_of(board, table) if row["kind"] == "run"]


def values(row: dict[str, Any]) -> dict[str, float]:
    """What can be ranked."""
    further = {column.key for column in FURTHER_COLUMNS}
    cells = {key: cell["value"] for key, cell in row["cells"].items() if key not in further}
    return {key: value for key, value in cells.items() if value == value}


def rank(cell: dict[str, Any]) -> int | None:
    return None if pd.isna(cell["rank"]) else cell["rank"]


def test_seeds_are_one_row_with_mean_and_deviation(board):
    unseen = (50.0, 53.0, 51.0)
    found = board(*(idda(value, 60.0, seed=seed) for seed, value in enumerate(unseen)))
    assert not found.messages and not found.apart
    (row,) = runs_of(found, RAINY)
    cell = row["cells"]["unseen"]
    assert cell["value"] == pytest.approx(statistics.fmean(unseen))
    assert cell["std"] == pytest.approx(statistics.stdev(unseen))
    assert cell["count"] == 3 and row["seeds"] == (0, 1, 2) and len(row["runs"]) == 3
    assert row["cells"]["seen"]["std"] == 0
    assert "seen_by_domain" not in values(row)  # no SiloBN, no such metric
    assert row["cells"]["seen_by_domain"]["status"] == "missing"
    assert row["method"] == "FedAvg" and row["experiment"] == f"{RAINY}_fedavg"
    assert row["bytes"] == 8000 * 5 * 1600 and row["seconds"] == 60


def test_seeds_with_other_images_are_rows_of_their_own(board):
    for changes in (
        {"data__test_seen__samples": 7},
        {"data__test_unseen__split_checksum": "9" * 64},
        {"data__test_unseen__content_sha256": "9" * 64},
        {"data__train__content_sha256": "9" * 64},
    ):
        made = board(idda(50.0, seed=0), idda(10.0, seed=1, **changes))
        rows = [row for table in made.own for row in rows_of(made, table)]
        assert sorted(row["seeds"] for row in rows) == [(0,), (1,)]


def test_a_column_reports_the_mean_of_the_last_rounds_or_the_last_evaluation(board):
    window, final = idda(50.0), toyresults.results("mnist_a01_r3", {"test/accuracy": 50.0})
    window["final"]["unseen"]["mIoU"] = 99.0
    window["curves"]["figures"]["unseen/mIoU"][-2:] = [1.0, 99.0]
    final["final"]["test"]["accuracy"] = final["curves"]["figures"]["test/accuracy"][-1] = 61.0
    found = board(window, final)
    (row,) = runs_of(found, RAINY)
    cell = row["cells"]["unseen"]
    assert cell["value"] == 50 and cell["count"] == 1 and cell["text"] == "50.00"
    (row,) = runs_of(found, "mnist_a01_r3")
    assert row["cells"]["test"]["value"] == 61


def test_runs_stand_beside_published_rows_and_are_ranked_with_them(board):
    found = board(idda(50.30, 70.0))
    rows = ranked_rows(found, RAINY)
    top = [(row["method"], rank(row["cells"]["unseen"]), row["kind"]) for row in rows[:4]]
    assert top == [
        ("FedAvg + SiloBN, LAB", 1, "published"),
        ("FedAvg + SiloBN, CFSI", 2, "published"),
        ("FedAvg", 3, "run"),
        ("FedAvg + SiloBN", 4, "published"),
    ]
    assert rank(runs_of(found, RAINY)[0]["cells"]["seen"]) == 1
    assert rows[0]["source"] == "FedDrive published mIoU"
    assert "Autonomous Driving" in rows[0]["paper_title"]


def test_ties_share_a_rank_at_the_printed_digits(board):
    # 50.03 and 50.54 are published
    rows = ranked_rows(board(idda(50.541), idda(50.5404, **OTHER)), RAINY)
    cells = [row["cells"]["unseen"] for row in rows[:5]]
    ranks = [(round(cell["value"], 2), rank(cell)) for cell in cells]
    assert ranks == [(53.99, 1), (50.54, 2), (50.54, 2), (50.54, 2), (50.03, 5)]
    kinds = [row["kind"] for row in rows[:5]]
    assert kinds == ["published", "run", "run", "published", "published"]


def test_a_row_without_the_first_value_comes_last_and_keeps_its_other_ranks(board):
    empty = board()
    last = ranked_rows(empty, f"{CIFAR}_traffic")[-1]
    assert "rounds" not in values(last) and rank(last["cells"]["rounds"]) is None
    rows = ranked_rows(empty, RAINY)
    fedavg = next(r for r in rows if r["method"] == "FedAvg" and r["paper"] == "FedDrive")
    assert "seen_by_domain" not in fedavg["cells"]
    with_all = next(r for r in rows if r["method"] == "FedAvg + SiloBN, LAB")
    keys = ("unseen", "seen", "seen_by_domain")
    assert [rank(with_all["cells"][key]) for key in keys] == [1, 1, 1]


def test_nothing_is_ranked_against_a_number_in_doubt(board):
    # the uniform Cityscapes table has 45.86 and 44.58 with damaged digits or rows
    run = toyresults.results("cityscapes_uniform_paper", {"test/mIoU": 45.80})
    found = board(run)
    rows = rows_of(found, "cityscapes_uniform_paper")
    cells = [row["cells"]["test"] for row in rows if "test" in row["cells"]]
    ranked = [(rank(cell), cell["value"]) for cell in cells if cell["is_ranked"]]
    assert ranked[:3] == [(1, 45.80), (2, 45.69), (3, 43.61)]
    doubtful = [cell for cell in cells if isinstance(cell["doubt"], str)]
    assert {cell["value"] for cell in doubtful if cell["value"] == cell["value"]} == {45.86, 44.58}
    values = found.values
    assert values.loc[values["doubt"].notna() | values["value"].isna(), "rank"].isna().all()


def test_a_row_that_is_lost_in_the_text_is_not_among_the_ranked(board):
    values = board().values
    lost = values[values["status"] == "lost"]
    assert len(lost[lost["benchmark"] == f"{RAINY}_paper"])
    assert lost["text"].unique().tolist() == ["not readable"]
    ranked = values[values["is_ranked"]]
    all_lost = ranked["status"].eq("lost").groupby([ranked["benchmark"], ranked["row"]]).all()
    assert not all_lost.any()


# ---------------------------------------------------------------- your runs


def test_your_runs_of_a_data_set_and_setting_are_ranked_within_themselves(board):
    blobs = [cifar(70.0 + seed, seed=seed, **BLOBS) for seed in (0, 1)]
    better = cifar(75.0, **BLOBS, **OTHER)
    rendered = toyresults.synthetic(cifar(80.0, **BLOBS))
    found = board(*blobs, better, rendered, cifar(60.0, experiment_sha256="c" * 64), idda(50.0))
    names = ["cifar10_a0_c5_cnn", "cifar10_a0_c5_cnn, rendered images", "cifar10_a0", "idda_rainy"]
    assert [table.title for table in found.own] == names
    rows = rows_of(found, found.own[0])
    ranks = [(rank(row["cells"]["test"]), values(row), row["seeds"]) for row in rows]
    assert ranks == [(1, {"test": 75.0}, (0,)), (2, {"test": 70.5}, (0, 1))]
    assert [table.title for table in found.apart] == names[:2]  # the others are in benchmarks
    for table in found.apart:
        (reasons,) = {row["reasons"] for row in rows_of(found, table)}
        assert reasons == ("its config names no setting",)
    own = {table.id for table in found.own}
    assert len(own) == 4 and not own & {table.id for table in found.benchmarks}


def test_tables_of_one_name_say_of_which_data_they_are(board):
    mine = {**OTHER, **BLOBS, "data__train__dataset": "Mine"}
    found = board(cifar(70.0, **BLOBS), cifar(60.0, **mine))
    assert [table.title for table in found.own] == [
        *("cifar10_a0_c5_cnn, Blobs", "cifar10_a0_c5_cnn, Mine")
    ]


@pytest.mark.parametrize(
    ("name", "methods", "title"),
    [
        ("orchards", [], "orchards"),
        ("orchards_fedasam_swa", ["fedasam", "swa"], "orchards"),
        ("segmentation_fedavg", [], "segmentation"),
        ("fedavg", None, "fedavg"),
        ("my_swa_run", ["swa"], "my_swa_run"),
    ],
)
def test_a_table_of_your_runs_has_the_name_of_its_config(board, name, methods, title):
    found = board(toyresults.changed(cifar(70.0, **BLOBS, name=name), methods=methods))
    assert [table.title for table in found.own] == [title]


def test_a_domain_of_ones_own_may_have_the_name_of_a_column(board):
    found = board(toyresults.results(CIFAR, {"seconds/accuracy": 70.0}, **BLOBS))
    (table,) = found.own
    (row,) = rows_of(found, table)
    assert row["cells"][table.columns[0].key]["value"] == 70.0


def test_rendered_and_real_runs_of_one_config_and_seed_are_two(board):
    found = board(idda(50.0), toyresults.synthetic(idda(60.0)))
    assert not found.messages
    assert len(runs_of(found, RAINY)) == 1
    assert [table.title for table in found.apart] == ["idda_rainy, rendered images"]


def test_synthetic_runs_never_stand_beside_published_numbers(board):
    found = board(toyresults.synthetic(idda(99.0)), idda(40.0, **OTHER))
    for benchmark in found.benchmarks:
        for row in runs_of(found, benchmark):
            assert not any(found.runs[id_].results.synthetic for id_ in row["runs"])
    (table,) = found.apart
    (row,) = rows_of(found, table)
    assert row["reasons"] == ("synthetic data: the images are rendered, they are not IDDA",)
    assert values(row)["unseen"] == 99 and found.places[row["runs"][0]] == []
    assert len(runs_of(found, RAINY)) == 1


def test_a_seed_without_the_last_rounds_is_apart_and_the_others_are_not(board):
    lost = idda(90.0, 95.0, seed=2, evaluations=1)
    found = board(idda(50.0, seed=0), idda(52.0, seed=1), lost)
    (row,) = runs_of(found, RAINY)
    assert row["seeds"] == (0, 1) and row["cells"]["unseen"]["value"] == 51
    (table,) = found.apart
    first, second = rows_of(found, table)
    assert first["seeds"] == (2,) and second["seeds"] == (0, 1)
    assert first["reasons"][0].startswith("too few evaluations: 1 ") and not second["reasons"]
    (place,) = found.places[second["runs"][0]]
    assert place["benchmark"] == RAINY and rank(place) == rank(row["cells"]["unseen"])


def test_what_keeps_a_run_apart(tmp_path):
    short = cifar(rounds=500, completed_rounds=500)
    alone = cifar(data__train__partition={"type": "SinglePartition"})
    blobs = toyresults.results(CIFAR, {}, **BLOBS)
    elsewhere = toyresults.results(RAINY, {"elsewhere/mIoU": 10.0})
    for number, (content, title, reason, known) in enumerate(
        (
            (short, "cifar10_a0", "train_cfg.max_rounds: ", {"test": 70.0}),
            (alone, "cifar10_a0", "centralized", {"test": 70.0}),
            (blobs, "cifar10_a0_c5_cnn", "its config names no setting", {}),
            (elsewhere, "idda_rainy", "the metric unseen/mIoU", {"elsewhere": 10.0}),
        )
    ):
        for seed in (0, 1):
            folder = tmp_path / "apart" / str(number) / str(seed)
            toyresults.write(folder, {**content, "seed": seed})
        made = build_board(*read_runs([tmp_path / "apart" / str(number)]))
        (table,) = made.apart
        assert table.title == title
        (row,) = rows_of(made, table)
        assert row["seeds"] == (0, 1) and values(row) == known
        (text,) = row["reasons"]
        assert text.startswith(reason)
        assert not any(made.has_runs(benchmark) for benchmark in made.benchmarks)


def test_of_two_runs_of_one_seed_none_counts(board, tmp_path):
    found = board(idda(50.0), idda(60.0), idda(55.0, seed=1))
    (row,) = runs_of(found, RAINY)
    assert row["seeds"] == (1,) and not found.apart
    (message,) = found.messages
    assert message.startswith(f"{tmp_path / '0'} and {tmp_path / '1'}: are runs of {RAINY}_fedavg ")
    assert "none of them counts" in message and "--seed" in message


def test_rows_of_one_method_say_in_what_they_differ(board):
    """As those of a sweep over an option; a row that is alone says nothing."""
    swa = [{"type": "SWA", "start": start, "cycle": 10} for start in (0.05, 0.5)]
    runs = [
        cifar(70.0 + n, seed=seed, averaging=own, experiment_sha256=str(n) * 64)
        for n, own in enumerate(swa)
        for seed in (0, 1)
    ]
    labels = [row["method"] for row in runs_of(board(*runs), CIFAR)]
    assert labels == [f"FedAvg + SWA, averaging.start {start}" for start in (0.5, 0.05)]
    others = [cifar(60.0, seed=seed, **OTHER) for seed in (0, 1)]
    (row, _) = runs_of(board(*runs[:2], *others), CIFAR)
    assert row["method"] == "FedAvg + SWA"


def test_a_year_is_recorded_and_not_that_of_a_file(tmp_path):
    runs = {"a": idda(50.0, year=2023), "b": idda(51.0, seed=1, year=2024), "c": idda(52.0, seed=2)}
    for name, content in runs.items():
        path = toyresults.write(tmp_path / name, content) / "results.json"
        os.utime(path, (0, 0))  # as a clone of another day
    years = {}
    for chosen in ("a", "ab", "abc", "c"):
        found = build_board(*read_runs([tmp_path / name for name in chosen]))
        (row,) = rows_of(found, found.own[0])
        years[chosen] = None if pd.isna(row["year"]) else row["year"]
    assert years == {"a": 2023, "ab": 2024, "abc": None, "c": None}
    assert not found.messages


# ---------------------------------------------------------------- published numbers


def test_tables_of_a_paper_that_share_a_cell_are_one_row(board):
    rows = ranked_rows(board(), CIFAR)
    found = [r for r in rows if r["method"] == "FedASAM + SWA" and r["paper"] == "ECCV22"]
    assert len(found) == 1 and found[0]["table"] == "Table 2" and "Table 6" in found[0]["also"]
    table_2 = next(
        r.value
        for r in read_published()
        if (r.paper, r.table, r.algorithm, r.averaging) == ("ECCV22", "Table 2", "fedasam", "swa")
        and (r.dataset, r.split, r.clients_per_round)
        == (*("cifar10", {"kind": "dirichlet", "alpha": 0}), 5)
    )
    assert values(found[0]) == {"test": table_2}
    fedavg = next(r for r in rows if r["paper"] == "FedGloSS" and r["method"] == "FedAvg")
    assert fedavg["cells"]["test"]["value"] == 59.9 and fedavg["cells"]["test"]["std"] > 0


def test_further_metrics_are_values_that_nothing_is_ranked_by(board):
    found = board(cifar(61.0))
    (own,) = runs_of(found, CIFAR)
    assert own["cells"]["parameters"]["value"] == 0.001
    assert own["cells"]["seconds"]["value"] == 0.006
    rows = ranked_rows(found, CIFAR)
    fedavg = next(r for r in rows if r["paper"] == "FedGloSS" and r["method"] == "FedAvg")
    cell = fedavg["cells"]["lambda_max"]
    assert (cell["value"], cell["std"], rank(cell)) == (66.23, 0.5, None)
    rows = rows_of(found, "cifar100_a05_k16_c16_r25_resnet56")
    fedavg = next(r for r in rows if r["method"] == "FedAvg")
    names = ("lambda_max", "trace", "h_n", "h_d", "mflops", "parameters", "seconds")
    values = 297, 6240, 11360, 0.98, 87.3, 0.61, 137.2
    assert tuple(fedavg["cells"][name]["value"] for name in names) == values
    assert not any(fedavg["cells"][name]["is_ranked"] for name in names)
    rows = rows_of(found, "cifar100_a0_c5_cnn")
    fedavg = next(r for r in rows if r["paper"] == "ECCV22" and r["method"] == "FedAvg")
    assert fedavg["cells"]["lambda_ratio"]["value"] == 2.0 and fedavg["table"] == "Table 2"


def test_centralized_training_and_variants_are_rows_that_are_not_ranked(board):
    found = board()
    for id_, label in (
        ("cifar100_a0_c5_cnn", "Centralized + ASAM + SWA"),
        ("cifar100_a0_c5_cnn", "FedAvg + SWA, SWA from round 10000"),
        ("cifar100_a0_c5_cnn", "FedAvg, client 0, sea"),
        ("cifar10_a0_c10_resnet20", "FedAvg + WIMA, W = 5"),
        ("cifar10_a100_c5_cnn", "FedGloSS + SAM, without ADMM"),
        ("landmarks_c10_r5000", "Centralized"),
    ):
        rows = [row for row in rows_of(found, id_) if row["method"].startswith(label)]
        assert rows and not any(row["is_ranked"] for row in rows), (id_, label)
    assert found.values.loc[~found.values["is_ranked"], "rank"].isna().all()
    central = [r for r in rows_of(found, "landmarks_c10_r5000") if r["method"] == "Centralized"]
    assert [row["cells"]["test"]["value"] for row in central] == [74.03]


def test_every_stored_number_of_these_kinds_is_shown(board):
    metrics = {"lambda_max", "lambda_max_over_lambda5", "hessian_trace", "hessian_norm_diff"}
    metrics |= {"hessian_direction_cos", "mflops", "params_m", "seconds_per_round"}
    values = set(board().values["value"])
    left = {
        (r.paper, r.table, r.dataset)
        for r in read_published()
        if r.metric in metrics or (r.metric == "accuracy" and (r.variant or r.split is None))
        if r.value is not None and r.value not in values
    }
    assert not left


def test_a_run_belongs_to_the_protocol_whose_setting_it_names(board):
    paper = toyresults.results(f"{RAINY}_paper", {"unseen/mIoU": 41.0, "seen/mIoU": 42.0}, **OTHER)
    found = board(idda(50.0), paper)
    assert not found.apart
    assert runs_of(found, RAINY)[0]["method"] == "FedAvg"
    assert runs_of(found, f"{RAINY}_paper")[0]["method"] == "FedSAM"
    for id_, papers in ((RAINY, {"FedDrive", ""}), (f"{RAINY}_paper", {"ECCV22", ""})):
        assert {row["paper"] for row in ranked_rows(found, id_)} == papers


def corrupted(samples=950_000):
    metrics = {
        "test/accuracy": 70.0,
        "corrupted/accuracy": 50.0,
        "corrupted/accuracy_severity_5": 30.0,
    }
    content = toyresults.results(CIFAR, metrics)
    entry = toyresults.entry("CIFAR10CDataset", {"samples": samples})
    content["data"]["test:corrupted"] = entry
    return content


def test_accuracy_under_corruptions_has_a_table_of_its_own(board):
    found = board(corrupted())
    (row,) = runs_of(found, f"{CIFAR}_corrupted")
    assert values(row) == {"mean": 50.0, "severity_5": 30.0}
    assert rank(row["cells"]["mean"]) == 1 and not found.apart
    assert len(runs_of(found, CIFAR)) == 1


def test_other_corruptions_are_apart_but_the_accuracy_counts(board):
    found = board(corrupted(samples=25))
    assert len(runs_of(found, CIFAR)) == 1
    assert not runs_of(found, f"{CIFAR}_corrupted")
    (table,) = found.apart
    (row,) = rows_of(found, table)
    (run,) = row["runs"]
    assert [place["benchmark"] for place in found.places[run]] == [CIFAR, f"{CIFAR}_traffic"]
    (title,) = (b.title for b in found.benchmarks if b.id == f"{CIFAR}_corrupted")
    assert row["reasons"][0].startswith(f"{title}: other corruptions: 25 images")
    assert values(row) == {"test": 70.0, "corrupted": 50.0}


def test_rounds_and_traffic_until_a_target(board):
    content = cifar(62.0)
    curves = content["curves"]  # from round 5,000
    curves["rounds"][:0] = [50, 2450]
    curves["bytes"][:0] = [1, 4_000_000 * 5]
    curves["loss"][:0] = [3.0, 2.0]
    curves["figures"]["test/accuracy"][:0] = [10.0, 59.9]
    (row,) = runs_of(board(content), f"{CIFAR}_traffic")
    # FedAvg's whole run: 1000 parameters of 4 bytes, both ways, 5 clients, 10,000 rounds
    assert values(row) == {"rounds": 2450.0, "traffic": pytest.approx(0.05)}
    assert rank(row["cells"]["rounds"]) == 4  # after FedSMOO, FedDyn and FedGloSS + SAM
    assert rank(row["cells"]["traffic"]) == 1


def test_a_target_that_is_not_reached(board):
    found = board(cifar(40.0, seed=0), cifar(65.0, seed=1))
    (row,) = runs_of(found, f"{CIFAR}_traffic")
    cell = row["cells"]["rounds"]
    assert cell["count"] == 1 and cell["doubt"] == "not reached in 1 of 2 runs"
    assert rank(cell) is None and cell["text"].endswith(" ?")
    (row,) = runs_of(board(cifar(40.0, seed=0), cifar(41.0, seed=1)), f"{CIFAR}_traffic")
    assert row["cells"]["rounds"]["text"] == "not reached"


def test_the_suites_own_runs_are_ranked_unless_they_are_given(board):
    def reproduced(found: Board) -> dict[str, dict[str, Any]]:
        rows = ranked_rows(found, "cifar10_a005_c5_cnn")
        return {row["experiment"]: row for row in rows if row["kind"] == "reproduced"}

    name = "cifar10_a005_fedavg"
    found = board()
    row = reproduced(found)[name]
    assert rank(row["cells"]["test"]) and row["command"].startswith("fedseg train cifar10_a005 ")
    assert f"{name}, reproduced here" in to_markdown(found, everything=True).replace("\\", "")
    assert not any(found.has_runs(benchmark) for benchmark in found.benchmarks)
    facts = next(f for f in read_json("reproduced.json")["rows"] if f["name"] == name)
    own = toyresults.results("cifar10_a005_c5_cnn", {"test/accuracy": 50.0})
    given = board(own | {"experiment_sha256": facts["experiment_sha256"]})
    assert name not in reproduced(given)


def test_the_worst_tenth_of_clients_is_a_column(board):
    final = {"test": {"accuracy": 70.0, "accuracy_worst10": 31.5}}
    found = board(cifar(final=final))
    for table in (CIFAR, *found.own):
        (row,) = runs_of(found, table)
        (cell,) = (c for c in row["cells"].values() if c["label"].startswith("test, worst 10 %"))
        assert cell["value"] == 31.5 and not cell["is_ranked"]


BAD_VALUES = {
    "an optimizer as text": {"algorithm": {"type": "FedAvg", "server_optim": "Adam"}},
    "an optimizer as a list": {"algorithm": {"type": "FedAvg", "server_optim": [1]}},
    "an algorithm without a name": {"algorithm": {"type": {"a": 1}}},
    "a partition of another kind": {"data__train__partition": {"type": ["x"], "alpha": {}}},
    "steps of another kind": {"data__train__steps": [[1], 2, None, {"type": []}]},
    "a style of another kind": {"data__train__style": {"type": [1]}},
    "a config of another kind": {"config": {"train_dataloader": {"transforms": "x"}, "model": 3}},
    "a component of another kind": {"config__val_dataloader": {"seen": [{"a": 1}, 2, {}]}},
    "a number beyond a float": {"seed": 10**400},
    "a large number": {"curves__figures__unseen/mIoU": [1e308] * 21},
    "an infinite number": {"seconds": {"wall": float("inf")}},
    "no rounds": {"completed_rounds": 0, "rounds": 0},
    "a deep value": {"deep": json.loads("[" * 400 + "]" * 400)},
    "half a character": {"name": "\ud800"},
    "a command to the terminal": {"name": "\x1b[2Jx\x07\u202ey\nz"},
    "a formula": {"name": "=HYPERLINK(1)"},
    "markup": {"name": "<script>x</script>[a](b)|`~#"},
}


def test_one_bad_run_does_not_stop_the_board(tmp_path):
    """And nothing of it reaches a terminal, spreadsheet or page as more than text."""
    for number, changes in enumerate(BAD_VALUES.values()):
        content = toyresults.changed(idda(seed=number), **changes)
        toyresults.write(tmp_path / f"bad{number}", content)
    toyresults.write(tmp_path / "bad\x1b\udcff", idda(seed=98))
    toyresults.write(tmp_path / "good", idda(seed=99, name="good"))
    board = build_board(*read_runs([tmp_path]))
    assert "good" in {run.results.name for run in board.runs.values()}
    messages = "\n".join(board.messages)
    assert messages.count(": name: must ") == 4 and "rename the folder" in messages
    console = Console(width=200, file=io.StringIO(), force_terminal=False)
    print_board(board, console)
    page = render(board, tmp_path)
    tables = to_csv(board, board.benchmarks) + to_csv(board, board.own, reasons=True)
    for text in (console.file.getvalue(), to_markdown(board), to_latex(board), tables, page):
        text.encode()
        assert not set(text) & {"\x1b", "\x07", "\u202e"}
    assert "<script>x" not in page
    assert "<script>x" not in to_markdown(board) and "[a]" not in to_markdown(board)
    assert not [cell for row in csv.reader(io.StringIO(tables)) for cell in row if cell[:1] == "="]
