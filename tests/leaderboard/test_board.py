"""Runs become rows: seeds, ranks, published numbers, what is left out and why."""

import copy
import csv
import io
import json
import os
import statistics

import pytest
import toyresults
from rich.console import Console
from toyresults import CIFAR, RAINY, cifar, idda

from fedseg.leaderboard.benchmarks import FURTHER_COLUMNS
from fedseg.leaderboard.board import Board, build_board
from fedseg.leaderboard.output import print_board, text_table, to_csv, to_json, to_markdown
from fedseg.leaderboard.page import render
from fedseg.leaderboard.page_runs import run_data
from fedseg.leaderboard.reference import read_json, read_published
from fedseg.runs.run_files import read_runs
from fedseg.runs.tables import markdown_text

OTHER = {"experiment_sha256": "d" * 64, "optim_wrapper": {"type": "SAMOptimWrapper"}}


@pytest.fixture
def board(tmp_path):
    """Writes runs, in folders by number, and builds their board."""

    def build(*contents) -> Board:
        for number, content in enumerate(contents):
            toyresults.write(tmp_path / str(number), content, 1000 + number)
        return build_board(*read_runs([tmp_path]))

    return build


def ranking(board: Board, id_: str):
    return next(r for r in board.rankings if r.benchmark.id == id_)


def values(row) -> dict:
    """What can be ranked."""
    further = {column.key for column in FURTHER_COLUMNS}
    return {key: cell.value for key, cell in row.cells.items() if key not in further}


def test_seeds_are_one_row_with_mean_and_deviation(board):
    unseen = (50.0, 53.0, 51.0)
    found = board(*(idda(value, 60.0, seed=seed) for seed, value in enumerate(unseen)))
    assert not found.messages and not found.apart
    (row,) = ranking(found, RAINY).runs
    cell = row.cells["unseen"]
    assert cell.value == pytest.approx(statistics.fmean(unseen))
    assert cell.std == pytest.approx(statistics.stdev(unseen))
    assert cell.count == 3 and row.seeds == (0, 1, 2) and len(row.runs) == 3
    assert row.cells["seen"].std == 0
    assert row.cells["seen_by_domain"].value is None  # no SiloBN, no such metric
    assert row.cells["seen_by_domain"].status == "missing"
    assert row.method.label == "FedAvg" and row.name == f"{RAINY}_fedavg"
    assert row.bytes == 8000 * 5 * 1600 and row.seconds == 60


def test_seeds_with_other_images_are_rows_of_their_own(board):
    for changes in (
        {"data__test_seen__samples": 7},
        {"data__test_unseen__split_checksum": "9" * 64},
        {"data__test_unseen__content_sha256": "9" * 64},
        {"data__train__content_sha256": "9" * 64},
    ):
        made = board(idda(50.0, seed=0), idda(10.0, seed=1, **changes))
        rows = [row for table in made.own for row in table.rows]
        assert sorted(row.seeds for row in rows) == [(0,), (1,)]


def test_a_column_reports_the_mean_of_the_last_rounds_or_the_last_evaluation(board):
    window, final = idda(50.0), toyresults.results("mnist_a01_r3", {"test/accuracy": 50.0})
    window["final"]["unseen"]["mIoU"] = 99.0
    window["curves"]["figures"]["unseen/mIoU"][-2:] = [1.0, 99.0]
    final["final"]["test"]["accuracy"] = final["curves"]["figures"]["test/accuracy"][-1] = 61.0
    found = board(window, final)
    (row,) = ranking(found, RAINY).runs
    assert row.cells["unseen"].value == 50
    assert row.cells["unseen"].std is None and row.cells["unseen"].count == 1
    (row,) = ranking(found, "mnist_a01_r3").runs
    assert row.cells["test"].value == 61


def test_runs_stand_beside_published_rows_and_are_ranked_with_them(board):
    found = ranking(board(idda(50.30, 70.0)), RAINY)
    top = [(r.method.label, r.cells["unseen"].rank, r.kind) for r in found.rows[:4]]
    assert top == [
        ("FedAvg + SiloBN, LAB", 1, "published"),
        ("FedAvg + SiloBN, CFSI", 2, "published"),
        ("FedAvg", 3, "run"),
        ("FedAvg + SiloBN", 4, "published"),
    ]
    assert found.runs[0].cells["seen"].rank == 1
    assert found.rows[0].source == "FedDrive published mIoU"
    assert "Autonomous Driving" in found.rows[0].title


def test_ties_share_a_rank_at_the_printed_digits(board):
    # 50.03 and 50.54 are published
    found = ranking(board(idda(50.541), idda(50.5404, **OTHER)), RAINY)
    ranks = [(round(r.cells["unseen"].value, 2), r.cells["unseen"].rank) for r in found.rows[:5]]
    assert ranks == [(53.99, 1), (50.54, 2), (50.54, 2), (50.54, 2), (50.03, 5)]
    kinds = [row.kind for row in found.rows[:5]]
    assert kinds == ["published", "run", "run", "published", "published"]


def test_a_row_without_the_first_value_comes_last_and_keeps_its_other_ranks(board):
    last = ranking(board(), f"{CIFAR}_traffic").rows[-1]
    assert last.cells["rounds"].value is None and last.cells["rounds"].rank is None
    found = ranking(board(), RAINY)
    fedavg = next(r for r in found.rows if r.method.label == "FedAvg" and r.paper == "FedDrive")
    assert fedavg.cells["seen_by_domain"].rank is None
    with_all = next(r for r in found.rows if r.method.label == "FedAvg + SiloBN, LAB")
    assert [with_all.cells[column.key].rank for column in found.columns] == [1, 1, 1]


def test_nothing_is_ranked_against_a_number_in_doubt(board):
    # the uniform Cityscapes table has 45.86 and 44.58 with damaged digits or rows
    run = toyresults.results("cityscapes_uniform_paper", {"test/mIoU": 45.80})
    found = ranking(board(run), "cityscapes_uniform_paper")
    ranked = [(r.cells["test"].rank, r.cells["test"].value) for r in found.rows]
    assert ranked[:3] == [(1, 45.80), (2, 45.69), (3, 43.61)]
    cells = [r.cells["test"] for r in (*found.rows, *found.further_rows)]
    doubtful = [cell for cell in cells if cell.doubt]
    assert {cell.value for cell in doubtful} == {45.86, 44.58, None}
    assert all(cell.rank is None for cell in doubtful)
    for one in board().rankings:
        for row in one.rows:
            for cell in row.cells.values():
                assert cell.rank is None or (cell.doubt is None and cell.value is not None)


def test_a_row_that_is_lost_in_the_text_is_not_among_the_ranked(board):
    found = ranking(board(), f"{RAINY}_paper")
    lost = [r for r in found.further_rows if r.cells["unseen"].status == "lost"]
    assert lost and all(row.cells["seen"].value is None for row in lost)
    for one in board().rankings:
        for row in one.rows:
            assert any(row.cells[c.key].status != "lost" for c in one.columns)


@pytest.mark.parametrize("part", ["partition_sha256", "content_sha256"])
def test_data_of_ones_own_are_ranked_in_boards_of_their_own(board, part):
    blobs = [cifar(70.0 + seed, seed=seed, data__train__dataset="Blobs") for seed in (0, 1)]
    better = cifar(75.0, data__train__dataset="Blobs", **OTHER)
    other = {f"data__train__{part}": "9" * 64}
    split = cifar(90.0, data__train__dataset="Blobs", **other)
    rendered = toyresults.synthetic(cifar(80.0, data__train__dataset="Blobs"))
    found = board(*blobs, better, split, rendered)
    assert not found.apart and not found.messages
    own = [table for table in found.rankings if table.benchmark.group == "Your runs"]
    assert own == list(found.rankings[:3]) and all(table.is_own for table in own)
    name = "cifar10_a0_c5_cnn, 5 of 100 clients, 10,000 rounds"  # of the config; it has several
    assert [table.title for table in own] == [name, name, f"{name}, rendered images"]
    assert len({table.benchmark.id for table in own}) == 3
    ranks = [(r.cells["test"].rank, r.cells["test"].value, r.seeds) for r in own[0].rows]
    assert ranks == [(1, 75.0, (0,)), (2, 70.5, (0, 1))]
    assert found.shown() == own and markdown_text(name) in to_markdown(found)
    assert to_json(found)["groups"][0] == "Your runs"
    page = render(found, {id_: None for id_ in found.runs})
    assert name in page and "Own data" not in page
    assert not found.overviews  # these tables have all of them


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
def test_a_table_of_own_data_has_the_name_of_its_config(board, name, methods, title):
    content = cifar(70.0, data__train__dataset="Blobs", name=name)
    found = board(toyresults.changed(content, methods=methods))
    assert found.rankings[0].title == title


def test_tables_of_a_paper_that_share_a_cell_are_one_row(board):
    found = ranking(board(), CIFAR)
    rows = [r for r in found.rows if r.method.label == "FedASAM + SWA" and r.paper == "ECCV22"]
    assert len(rows) == 1 and rows[0].table == "Table 2" and "Table 6" in rows[0].also
    table_2 = next(
        r.value
        for r in read_published()
        if (r.paper, r.table, r.algorithm, r.averaging) == ("ECCV22", "Table 2", "fedasam", "swa")
        and (r.dataset, r.split, r.clients_per_round)
        == (*("cifar10", {"kind": "dirichlet", "alpha": 0}), 5)
    )
    assert values(rows[0]) == {"test": table_2}
    fedavg = next(r for r in found.rows if r.paper == "FedGloSS" and r.method.label == "FedAvg")
    assert fedavg.cells["test"].value == 59.9 and fedavg.cells["test"].std is not None


def test_further_metrics_are_columns_that_nothing_is_ranked_by(board):
    found = ranking(board(cifar(61.0)), CIFAR)
    keys = [column.key for column in found.further_columns]
    clients = ["lambda_max_local", "lambda_max_global"]
    assert keys == ["lambda_max", *clients, "parameters", "seconds"]
    (own,) = found.runs
    assert own.cells["parameters"].value == 0.001 and own.cells["seconds"].value == 0.006
    fedavg = next(r for r in found.rows if r.paper == "FedGloSS" and r.method.label == "FedAvg")
    cell = fedavg.cells["lambda_max"]
    assert (cell.value, cell.std, cell.rank) == (66.23, 0.5, None)
    hessians = ranking(board(), "cifar100_a05_k16_c16_r25_resnet56")
    fedavg = next(r for r in hessians.rows if r.method.label == "FedAvg")
    names = ("lambda_max", "trace", "h_n", "h_d", "mflops", "parameters", "seconds")
    assert tuple(column.key for column in hessians.further_columns) == names
    values = 297, 6240, 11360, 0.98, 87.3, 0.61, 137.2
    assert tuple(fedavg.cells[name].value for name in names) == values
    ratios = ranking(board(), "cifar100_a0_c5_cnn")
    fedavg = next(r for r in ratios.rows if r.paper == "ECCV22" and r.method.label == "FedAvg")
    assert fedavg.cells["lambda_ratio"].value == 2.0 and fedavg.table == "Table 2"
    assert not ranking(board(), RAINY).further_columns


def test_centralized_training_and_variants_are_rows_that_are_not_ranked(board):
    rows = {table.benchmark.id: table.further_rows for table in board().rankings}
    for id_, label in (
        ("cifar100_a0_c5_cnn", "Centralized + ASAM + SWA"),
        ("cifar100_a0_c5_cnn", "FedAvg + SWA, SWA from round 10000"),
        ("cifar100_a0_c5_cnn", "FedAvg, client 0, sea"),
        ("cifar10_a0_c10_resnet20", "FedAvg + WIMA, W = 5"),
        ("cifar10_a100_c5_cnn", "FedGloSS + SAM, without ADMM"),
        ("landmarks_c10_r5000", "Centralized"),
    ):
        assert any(row.method.label.startswith(label) for row in rows[id_]), (id_, label)
    assert rows["landmarks_c10_r5000"][0].cells["test"].value == 74.03
    cells = [cell for found in rows.values() for row in found for cell in row.cells.values()]
    assert all(cell.rank is None for cell in cells)


def test_every_stored_number_of_these_kinds_is_shown(board):
    metrics = {"lambda_max", "lambda_max_over_lambda5", "hessian_trace", "hessian_norm_diff"}
    metrics |= {"hessian_direction_cos", "mflops", "params_m", "seconds_per_round"}
    values = {
        cell.value
        for table in board().rankings
        for row in (*table.rows, *table.further_rows)
        for cell in row.cells.values()
    }
    left = {
        (r.paper, r.table, r.dataset)
        for r in read_published()
        if r.metric in metrics or (r.metric == "accuracy" and (r.variant or r.split is None))
        if r.value is not None and r.value not in values
    }
    assert not left


def test_a_run_belongs_to_the_protocol_whose_values_it_has(board):
    paper = toyresults.results(f"{RAINY}_paper", {"unseen/mIoU": 41.0, "seen/mIoU": 42.0}, **OTHER)
    found = board(idda(50.0), paper)
    assert not found.apart
    assert ranking(found, RAINY).runs[0].method.label == "FedAvg"
    assert ranking(found, f"{RAINY}_paper").runs[0].method.label == "FedSAM"
    for id_, papers in ((RAINY, {"FedDrive", ""}), (f"{RAINY}_paper", {"ECCV22", ""})):
        assert {row.paper for row in ranking(found, id_).rows} == papers


def test_synthetic_runs_never_stand_beside_published_numbers(board):
    found = board(toyresults.synthetic(idda(99.0)), idda(40.0, **OTHER))
    for one in found.rankings:
        for row in one.runs:
            assert not any(found.runs[id_].results.synthetic for id_ in row.runs)
    (apart,) = found.apart
    assert apart.synthetic and apart.title == "IDDA, rendered images"
    (row,) = apart.rows
    assert row.reasons[0].startswith("synthetic data") and row.cells["unseen"].value == 99
    assert row.cells["unseen"].rank is None and row.closest == RAINY and not row.ranks
    assert len(ranking(found, RAINY).runs) == 1


def test_a_seed_without_the_last_rounds_is_apart_and_the_others_are_not(board):
    lost = idda(90.0, 95.0, seed=2, evaluations=1)
    found = board(idda(50.0, seed=0), idda(52.0, seed=1), lost)
    (row,) = ranking(found, RAINY).runs
    assert row.seeds == (0, 1) and row.cells["unseen"].value == 51
    (apart,) = found.apart
    assert apart.rows[0].seeds == (2,)
    assert apart.rows[0].reasons[0].startswith("too few evaluations: 1 ")
    (own,) = found.own
    assert [(row.seeds, row.ranks and row.ranks[0].rank) for row in own.rows] == [
        ((2,), ()),
        ((0, 1), ranking(found, RAINY).runs[0].cells["unseen"].rank),
    ]


def test_what_keeps_a_run_apart(board, tmp_path):
    short = cifar(rounds=500, completed_rounds=500)
    alone = cifar(data__train__partition={"type": "SinglePartition"})
    blobs = toyresults.results(CIFAR, {}, data__train__dataset="Blobs")
    elsewhere = toyresults.results(RAINY, {"elsewhere/mIoU": 10.0})
    for number, (content, closest, title, reason, found) in enumerate(
        (
            (short, CIFAR, "CIFAR-10", "train_cfg.max_rounds: ", {"test": 70.0}),
            (alone, "", "CIFAR-10", "centralized", {"test": 70.0}),
            (blobs, "", "Blobs", "there is no bench", {}),
            (elsewhere, RAINY, "IDDA", "the metric unseen/mIoU", {"elsewhere": 10.0}),
        )
    ):
        for seed in (0, 1):
            folder = tmp_path / "apart" / str(number) / str(seed)
            toyresults.write(folder, {**content, "seed": seed})
        made = build_board(*read_runs([tmp_path / "apart" / str(number)]))
        (apart,) = made.apart
        assert apart.title == title and not apart.synthetic and not apart.ranked
        (row,) = apart.rows
        assert row.seeds == (0, 1) and values(row) == found and row.closest == closest
        (text,) = row.reasons
        assert text.startswith(reason)
        assert not any(table.runs for table in made.rankings)


def test_a_run_is_placed_where_it_differs_least(board):
    # rendered images with other clients: the path of the split gives the setting away
    demo = toyresults.synthetic(
        idda(rounds=30, completed_rounds=30, data__train__partition_sha256="a" * 64)
    )
    uniform = copy.deepcopy(demo)
    uniform["config"]["train_dataloader"]["dataset"]["split"] = "splits/uniform/rainy/train"
    found = board(demo, toyresults.changed(uniform, **OTHER))
    (apart,) = found.apart
    assert sorted(row.closest for row in apart.rows) == [RAINY, "idda_rainy_uniform"]


def test_a_split_of_no_benchmark(board):
    own = toyresults.synthetic(
        idda(
            config__train_dataloader__dataset__split="splits/train",
            data__train__clients=2,
            rounds=6,
            completed_rounds=6,
            data__train__partition_sha256="a" * 64,
        )
    )
    recipe = cifar(data__train__partition__alpha=0.5)
    found = board(own, recipe)
    assert [table.title for table in found.apart] == ["CIFAR-10", "IDDA, rendered images"]
    (cifars,), (iddas,) = (table.rows for table in found.apart)
    synthetic, split = iddas.reasons
    assert synthetic.startswith("synthetic data") and iddas.closest == cifars.closest == ""
    assert split.startswith("other split: 2 clients, NaturalPartition")
    (split,) = cifars.reasons
    assert split.startswith("other split: 100 clients, DirichletPartition, alpha 0.5")
    assert values(iddas) == {"unseen": 50.0, "seen": 60.0}


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
    (row,) = ranking(found, f"{CIFAR}_corrupted").runs
    assert values(row) == {"mean": 50.0, "severity_5": 30.0}
    assert row.cells["mean"].rank == 1 and not found.apart
    assert len(ranking(found, CIFAR).runs) == 1


def test_other_corruptions_are_apart_but_the_accuracy_counts(board):
    found = board(corrupted(samples=25))
    assert len(ranking(found, CIFAR).runs) == 1
    assert not ranking(found, f"{CIFAR}_corrupted").runs
    (apart,) = found.apart
    (row,) = apart.rows
    assert row.closest == f"{CIFAR}_corrupted"
    assert [rank.benchmark for rank in row.ranks] == [CIFAR, f"{CIFAR}_traffic"]
    title = ranking(found, row.closest).title
    assert row.reasons[0].startswith(f"{title}: other corruptions: 25 images")
    assert values(row) == {"test": 70.0, "corrupted": 50.0}
    (apart,) = board(toyresults.synthetic(corrupted())).apart
    assert values(apart.rows[0]) == {"test": 70.0, "corrupted": 50.0}


def test_rounds_and_traffic_until_a_target(board):
    content = cifar(62.0)
    curves = content["curves"]  # from round 5,000
    curves["rounds"][:0] = [50, 2450]
    curves["bytes"][:0] = [1, 4_000_000 * 5]
    curves["loss"][:0] = [3.0, 2.0]
    curves["figures"]["test/accuracy"][:0] = [10.0, 59.9]
    (row,) = ranking(board(content), f"{CIFAR}_traffic").runs
    # FedAvg's whole run: 1000 parameters of 4 bytes, both ways, 5 clients, 10,000 rounds
    assert values(row) == {"rounds": 2450.0, "traffic": pytest.approx(0.05)}
    assert row.cells["rounds"].rank == 4  # after FedSMOO, FedDyn and FedGloSS + SAM
    assert row.cells["traffic"].rank == 1


def test_a_target_that_is_not_reached(board):
    found = board(cifar(40.0, seed=0), cifar(65.0, seed=1))
    (row,) = ranking(found, f"{CIFAR}_traffic").runs
    cell = row.cells["rounds"]
    assert cell.count == 1 and cell.doubt == "not reached in 1 of 2 runs" and cell.rank is None
    (row,) = ranking(board(cifar(40.0, seed=0), cifar(41.0, seed=1)), f"{CIFAR}_traffic").runs
    assert row.cells["rounds"].value is None and row.cells["rounds"].status == "not_reached"


def test_a_year_is_recorded_and_not_that_of_a_file(tmp_path):
    runs = {"a": idda(50.0, year=2023), "b": idda(51.0, seed=1, year=2024), "c": idda(52.0, seed=2)}
    for name, content in runs.items():
        path = toyresults.write(tmp_path / name, content) / "results.json"
        os.utime(path, (0, 0))  # as a clone of another day
    years = {}
    for chosen in ("a", "ab", "abc", "c"):
        found = build_board(*read_runs([tmp_path / name for name in chosen]))
        years[chosen] = {row.year for row in found.own[0].rows}
    assert years == {"a": {2023}, "ab": {2024}, "abc": {None}, "c": {None}}
    assert not found.messages


@pytest.mark.parametrize("kept", ["the newer", "the unchanged", "the comparable"])
def test_of_two_runs_of_one_seed_one_counts(board, tmp_path, kept):
    evaluations = 3 if kept == "the comparable" else 20
    found = board(idda(50.0), idda(60.0, evaluations=evaluations), idda(55.0, seed=1))
    if kept == "the unchanged":
        path = tmp_path / "1" / "results.json"
        path.write_text(path.read_text().replace("60.0", "99.0"))
        os.utime(path, (2000, 2000))
        found = build_board(*read_runs([tmp_path]))
    number, value = (1, 57.5) if kept == "the newer" else (0, 52.5)
    (row,) = ranking(found, RAINY).runs
    assert row.seeds == (0, 1) and row.cells["unseen"].value == value and not found.apart
    message = found.messages[-1]
    assert message.startswith(f"{tmp_path / str(1 - number)}: is a second run")
    assert f"{tmp_path / str(number)} counts" in message and "--seed" in message


def test_rows_of_one_method_say_in_what_they_differ(board):
    """As those of a sweep over an option; a row that is alone says nothing."""
    swa = [{"type": "SWA", "start": start, "cycle": 10} for start in (0.05, 0.5)]
    runs = [
        cifar(70.0 + n, seed=seed, averaging=own, experiment_sha256=str(n) * 64)
        for n, own in enumerate(swa)
        for seed in (0, 1)
    ]
    labels = [row.method.label for row in ranking(board(*runs), CIFAR).runs]
    assert labels == [f"FedAvg + SWA, averaging.start {start}" for start in (0.5, 0.05)]
    others = [cifar(60.0, seed=seed, **OTHER) for seed in (0, 1)]
    (row, _) = ranking(board(*runs[:2], *others), CIFAR).runs
    assert row.method.label == "FedAvg + SWA"


def test_a_domain_of_ones_own_may_have_the_name_of_a_column(board):
    found = board(
        toyresults.results(CIFAR, {"seconds/accuracy": 70.0}, data__train__dataset="Blobs")
    )
    (table,) = (table for table in found.rankings if table.is_own)
    assert table.rows[0].cells[table.columns[0].key].value == 70.0


def test_rendered_and_real_runs_of_one_config_and_seed_are_two(board):
    found = board(idda(50.0), toyresults.synthetic(idda(60.0)))
    assert not found.messages
    assert len(ranking(found, RAINY).runs) == 1 and len(found.apart) == 1


def test_the_suites_own_runs_are_ranked_unless_they_are_given(board):
    found = ranking(board(), "cifar10_a005_c5_cnn")
    rows = {row.name: row for row in found.rows if row.kind == "reproduced"}
    row = rows["cifar10_a005_fedavg"]
    assert row.cells["test"].rank and row.command.startswith("fedseg train cifar10_a005 ")
    assert row.source in text_table(found).rows[found.rows.index(row)][-1] and not found.runs
    facts = next(f for f in read_json("reproduced.json")["rows"] if f["name"] == row.name)
    own = toyresults.results("cifar10_a005_c5_cnn", {"test/accuracy": 50.0})
    given = board(own | {"experiment_sha256": facts["experiment_sha256"]})
    names = [r.name for r in ranking(given, "cifar10_a005_c5_cnn").rows if r.kind == "reproduced"]
    assert row.name not in names


def test_the_worst_tenth_of_clients_is_a_column(board):
    final = {"test": {"accuracy": 70.0, "accuracy_worst10": 31.5}}
    found = board(cifar(final=final))
    for table in (ranking(found, CIFAR), *found.own):
        (column,) = (c for c in table.further_columns if c.label == "test, worst 10 %")
        assert table.runs[0].cells[column.key].value == 31.5


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
    page = render(board, {id_: run_data(run, tmp_path, []) for id_, run in board.runs.items()})
    tables = to_csv(board.rankings) + to_csv(board.apart, "reasons")
    json.dumps(to_json(board), allow_nan=False)
    for text in (console.file.getvalue(), to_markdown(board), tables, page):
        text.encode()
        assert not set(text) & {"\x1b", "\x07", "\u202e"}
    assert "<script>x" not in page
    assert "<script>x" not in to_markdown(board) and "[a]" not in to_markdown(board)
    assert not [cell for row in csv.reader(io.StringIO(tables)) for cell in row if cell[:1] == "="]
