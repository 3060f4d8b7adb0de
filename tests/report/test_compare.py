"""Differences between runs against figures worked out by hand."""

import json
from pathlib import Path

import numpy as np
import pytest
import toyresults

from fedseg.errors import DataError
from fedseg.report.compare import Reached, Value, compare, domain_of, read_run, read_sides
from fedseg.report.compare_curves import apart, mean_losses

RAINY = "idda_rainy_heterogeneous"
FIGURE = "unseen/mIoU"


def record(round_: int, value: float | None = None, **changes) -> dict:
    line = {
        "round": round_,
        "participants": [{"client": "a"}],
        "loss": 1 / round_,
        "rejected": [],
        "bytes_down": 100,
        "bytes_up": 50,
        "seconds": {"train": 2.0, "aggregate": 0.5, "evaluate": 1.0},
        **changes,
    }
    return line if value is None else {**line, "metrics": {FIGURE: value}}


def write_history(folder: Path, records) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(line) + "\n" for line in records)
    (folder / "history.jsonl").write_text(lines)
    return folder


def finished(folder: Path, figure: float = 50.0, seed: int = 0, **changes) -> Path:
    return toyresults.write(folder, toyresults.results(RAINY, {FIGURE: figure}, seed, **changes))


def cells(*paths, figure=FIGURE):
    return compare(read_sides(paths)).figures[figure]


# ---------------------------------------------------------------- figures


def test_paired_differences_are_of_the_rounds_that_both_evaluated(tmp_path):
    one = write_history(tmp_path / "a", [record(r, 10.0 + r) for r in range(1, 11)])
    # evaluates even rounds only, and stops at 8: better by 2 at 2, 4 and by 5 at 6, 8
    values = {2: 14.0, 4: 16.0, 6: 21.0, 8: 23.0}
    other = write_history(tmp_path / "b", [record(r, values.get(r)) for r in range(1, 9)])
    reference, cell = cells(one, other)
    assert (reference.difference, reference.paired) == (None, None)
    assert reference.last == Value(20.0) and cell.last == Value(23.0)
    assert cell.difference == Value(3.0)
    assert cell.paired == Value(3.5, 1.5, 4, "rounds")  # 2, 2, 5, 5, divided by n
    assert cell.window == Value(18.5, pytest.approx(np.std([14, 16, 21, 23])), 4, "evaluations")


def test_paired_differences_are_of_the_last_window(tmp_path):
    for name, gain in (("a", 0.0), ("b", 1.0)):
        # before the last four rounds the second run is far behind
        folder = tmp_path / name
        write_history(folder, [record(r, gain if r > 6 else -50 * gain) for r in range(1, 11)])
        (folder / "own.py").write_text("train_cfg = dict(max_rounds=20, val_last_rounds=4)")
    sides = read_sides([tmp_path / "a", tmp_path / "b"])
    assert [side.first.window for side in sides] == [4, 4]
    assert [side.first.planned for side in sides] == [20, 20]
    cell = compare(sides).figures[FIGURE][1]
    assert cell.paired == Value(1.0, 0.0, 4, "rounds")


def test_a_finished_run_has_the_figures_of_its_results(tmp_path):
    one, other = finished(tmp_path / "a", 50.0), finished(tmp_path / "b", 52.0)
    reference, cell = cells(one, other)
    assert reference.last == Value(50.0) and cell.difference == Value(2.0)
    # half of it in the middle of the run, which is not in the window of 100 rounds
    assert cell.paired == Value(2.0, None, 1, "rounds")
    assert cell.window == Value(52.0, None, 1, "evaluations")


def test_a_window_of_no_round_is_the_last_one(tmp_path):
    one = finished(tmp_path / "a", 50.0, last_rounds__rounds=0)
    other = finished(tmp_path / "b", 51.0, last_rounds__rounds=-3)
    assert cells(one, other)[1].paired == Value(1.0, None, 1, "rounds")


def test_figures_of_one_run_only(tmp_path):
    one = write_history(tmp_path / "a", [record(1, 5.0)])
    other = write_history(tmp_path / "b", [record(1, metrics={"seen/aAcc": 70.0, FIGURE: None})])
    comparison = compare(read_sides([one, other]))
    assert list(comparison.figures) == [FIGURE, "seen/aAcc"]  # the main metric first
    left, right = comparison.figures[FIGURE]
    assert left.last == Value(5.0)
    assert (right.last, right.window, right.difference, right.paired) == (None,) * 4


def test_seeds_are_paired(tmp_path):
    for seed, (base, better) in enumerate([(50.0, 51.0), (40.0, 43.0), (60.0, 65.0)]):
        finished(tmp_path / "a" / str(seed), base, seed)
        finished(tmp_path / "b" / str(seed), better, seed)
    reference, cell = cells(tmp_path / "a", tmp_path / "b")
    assert reference.last == Value(50.0, 10.0, 3, "seeds")
    assert cell.paired == Value(3.0, 2.0, 3, "seeds")  # 1, 3, 5, divided by n - 1
    assert cell.difference == Value(3.0, 2.0, 3, "seeds")


def test_seeds_that_only_one_side_has_cannot_be_paired(tmp_path):
    for seed, value in enumerate((50.0, 40.0)):
        finished(tmp_path / "a" / str(seed), value, seed)
    other = finished(tmp_path / "b", 49.0, seed=7)
    comparison = compare(read_sides([tmp_path / "a", other]))
    assert comparison.figures[FIGURE][1].paired == Value(4.0, over="unpaired")
    assert "A and B have other seeds (0, 1 against 7): chance differs too." in comparison.notes


# ---------------------------------------------------------------- configs, data, cost


def test_configs_differ_where_they_do(tmp_path):
    texts = {
        "a": "model = dict(type='CNN')\ntrain_cfg = dict(max_rounds=3)\nwork_dir = 'x'",
        "b": "model = dict(type='CNN')\ntrain_cfg = dict(max_rounds=3)\nalgorithm = dict(mu=0.1)",
    }
    for name, text in texts.items():
        folder = write_history(tmp_path / name, [record(1, 5.0)])
        (folder / "own.py").write_text(text)
    comparison = compare(read_sides([tmp_path / "a", tmp_path / "b"]))
    assert comparison.complete
    assert {k: tuple(map(str, v)) for k, v in comparison.config.items()} == {
        "algorithm.mu": ("—", "0.1")
    }


def test_without_config_copies_the_results_tell(tmp_path):
    one = finished(tmp_path / "a")
    other = finished(tmp_path / "b", algorithm={"type": "FedProx", "mu": 0.1}, seed=0)
    comparison = compare(read_sides([one, other]))
    assert not comparison.complete
    assert comparison.config["algorithm.type"] == ("FedAvg", "FedProx")
    assert set(comparison.config) == {"algorithm.type", "algorithm.mu"}
    assert comparison.conditions == {}
    assert any("what results.json records" in note for note in comparison.notes)


def test_other_test_images_have_no_difference(tmp_path):
    one = finished(tmp_path / "a")
    other = finished(tmp_path / "b", data__test_unseen__split_checksum="1" * 64)
    comparison = compare(read_sides([one, other]))
    cell = comparison.figures[FIGURE][1]
    assert cell.last == Value(50.0) and (cell.difference, cell.paired) == (None, None)
    assert any("other images in unseen" in note for note in comparison.notes)
    assert list(comparison.conditions) == ["data.test:unseen.split_checksum"]


def test_rendered_images_are_not_real_ones(tmp_path):
    one = finished(tmp_path / "a")
    content = toyresults.results(RAINY, {FIGURE: 1.0})
    other = toyresults.write(tmp_path / "b", toyresults.synthetic(content))
    comparison = compare(read_sides([one, other]))
    assert comparison.figures[FIGURE][1].paired is None
    assert "A and B were trained on other images." in comparison.notes


@pytest.mark.parametrize(
    "changes, told",
    [
        ({"data__train__partition_sha256": "9" * 64}, "it is another split"),
        ({"versions": {"python": "3.9"}}, "run with other versions: even equal configs"),
        ({"device": "cuda", "threads": 2}, "other device and threads"),
        ({"seed": 5}, "other seeds (0 against 5)"),
        ({"data__test_unseen__steps": []}, "prepare the test images of unseen in other ways"),
    ],
)
def test_what_stands_in_the_way_is_told(tmp_path, changes, told):
    one = finished(tmp_path / "a")
    content = toyresults.results(RAINY, {FIGURE: 50.0})
    other = toyresults.write(tmp_path / "b", toyresults.changed(content, **changes))
    comparison = compare(read_sides([one, other]))
    assert any(told in note for note in comparison.notes)
    assert comparison.figures[FIGURE][1].difference == Value(0.0)


def test_costs(tmp_path):
    one = finished(tmp_path / "a")
    other = write_history(tmp_path / "b", [record(r, rejected=[1] * (r == 2)) for r in (1, 2)])
    costs = compare(read_sides([one, other])).costs
    rounds = toyresults.setting(RAINY).rounds
    assert costs["rounds"] == (rounds, 2)
    assert (costs["bytes_down"][1], costs["bytes_up"][1], costs["bytes"][1]) == (200, 100, 300)
    assert costs["wall"] == (60.0, None)
    assert costs["train"] == (50.0, 4.0)
    assert costs["rejected_updates"] == (0, 1)


def test_norms_are_those_of_the_last_round(tmp_path):
    norms = ({"norm_w": 5.0, "norm_delta": 2.0}, {"norm_w": 7.0, "norm_delta": None})
    records = [record(r, 1.0, **norm) for r, norm in enumerate(norms, start=1)]
    one = write_history(tmp_path / "a", records)
    other = write_history(tmp_path / "b", [record(1, 1.0)])  # written by an older fedseg
    assert compare(read_sides([one, other])).norms == {
        "norm_w": (7.0, None),
        "norm_delta": (None, None),
    }


def test_the_first_evaluation_that_reaches_a_target_counts(tmp_path):
    values = {2: 19.9, 4: 20.0, 6: 15.0, 8: 30.0}
    one = write_history(tmp_path / "a", [record(r, values.get(r)) for r in range(1, 9)])
    low = write_history(tmp_path / "b", [record(r, 10.0) for r in range(1, 9)])
    other = {"metrics": {"seen/mIoU": 50.0, "unseen/accuracy": 50.0}}
    without = write_history(tmp_path / "c", [record(1, **other)])
    comparison = compare(read_sides([one, low, without]), until=20.0)
    assert set(comparison.reached) == {"unseen/mIoU", "seen/mIoU"}  # not of another metric
    assert comparison.reached[FIGURE] == (
        Reached(Value(4), Value(4 * 150), 1),
        Reached(None, None, 0),
        None,
    )
    assert comparison.reached["seen/mIoU"] == (None, None, Reached(Value(1), Value(150), 1))
    assert compare(read_sides([one, low])).reached == {}


def test_seeds_reach_a_target_on_average(tmp_path):
    for seed, rounds in enumerate(((10, 20), (20, 40), (30, 60))):
        curves = {"rounds": rounds, "bytes": (100, 200), "loss": (1.0, 1.0)}
        curves["figures"] = {FIGURE: (10.0, 49.0 + seed)}
        finished(tmp_path / "seeds" / str(seed), seed=seed, curves=curves)
    side = read_sides([tmp_path / "seeds"])
    (reached,) = compare(side, until=50.0).reached[FIGURE]
    assert reached.seeds == 2
    assert reached.round == Value(50.0, pytest.approx(200**0.5), 2, "seeds")
    assert reached.bytes == Value(200.0, 0.0, 2, "seeds")
    assert compare(side, until=52.0).reached[FIGURE] == (Reached(None, None, 0),)


def test_figures_stand_metric_by_metric(tmp_path):
    order = ["b/aAcc", "b/mIoU", "b/mAcc", "a/aAcc", "a/mIoU"]
    folder = write_history(tmp_path, [record(1, metrics=dict.fromkeys(order, 1.0))])
    figures = compare(read_sides([folder, folder])).figures
    assert list(figures) == ["b/mIoU", "a/mIoU", "b/aAcc", "a/aAcc", "b/mAcc"]


def test_domains_of_figures():
    assert domain_of("global:seen_by_domain/mIoU") == "seen"
    assert domain_of("unseen_0001TP/aAcc") == "unseen_0001TP"


# ---------------------------------------------------------------- reading


def test_a_real_run_against_itself(small_run):
    comparison = compare(read_sides([small_run, small_run / "results.json"]))
    assert comparison.complete and not comparison.config and not comparison.conditions
    results = json.loads((small_run / "results.json").read_text())
    for domain in ("seen", "seen_by_domain", "unseen"):
        name = f"{domain}/mIoU"
        reference, cell = comparison.figures[name]
        assert reference.last == Value(results["final"][domain]["mIoU"])
        assert reference.window.mean == results["last_rounds"]["mean"][name]
        assert reference.window.count == results["last_rounds"]["evaluations"]
        assert cell.paired == Value(0.0, 0.0, 2, "rounds")
    # details beside the figures are none
    assert not any("domains" in name or name.endswith("/IoU") for name in comparison.figures)
    assert not comparison.notes


def test_a_stopped_run_has_the_figures_of_its_history(small_run, tmp_path):
    lines = (small_run / "history.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "history.jsonl").write_text("".join(lines[:4]) + lines[4][:30])
    (tmp_path / "small.py").write_text((small_run / "small.py").read_text())
    run = read_run(tmp_path)
    assert (run.rounds, run.planned, run.evaluated, run.seed) == (4, 6, 4, 0)
    assert run.last == {
        name: value for name, value in json.loads(lines[3])["metrics"].items() if value is not None
    }
    whole = read_run(small_run)
    for name in run.last:
        assert run.series(name).items() <= whole.series(name).items()
    notes = compare(read_sides([small_run, tmp_path])).notes
    assert any("B is not finished: 4 of 6 rounds" in note for note in notes)
    assert any("different rounds (A 6, B 4)" in note for note in notes)


def test_an_old_file_has_no_curves_of_its_own(tmp_path):
    content = toyresults.results(RAINY, {FIGURE: 50.0})
    content["schema_version"] = 1
    for name in ("curves", "experiment_sha256", "hardware", "local_loss"):
        del content[name]
    folder = toyresults.write(tmp_path / "a", content)
    assert read_run(folder).curves is None
    assert cells(folder, folder)[1].paired is None
    rounds = content["rounds"]
    write_history(folder, [record(rounds, 50.0)])
    assert read_run(folder).series(FIGURE) == {rounds: 50.0}


def test_a_file_of_another_name_has_no_neighbours(tmp_path):
    folder = finished(tmp_path / "a")
    write_history(folder, [record(1, 3.0)])
    copy = folder / "results_of_a_friend.json"
    copy.write_text((folder / "results.json").read_text())
    assert read_run(copy).losses == {} and read_run(folder).losses == {1: 1.0}


@pytest.mark.parametrize(
    "change, told",
    [
        (lambda line: line.pop("bytes_up"), "line 2: has no 'bytes_up'"),
        (lambda line: line.update(round=1), "line 2: round 1 comes after round 1"),
        (lambda line: line.update(loss="high"), "line 2: loss: must be"),
        (lambda line: line.update(metrics=[1]), "line 2: metrics: must be an object"),
        (lambda line: line.update(bytes_up=float("nan")), "line 2: bytes_up: must be"),
    ],
)
def test_a_wrong_history_is_told_by_line(tmp_path, change, told):
    lines = [record(1, 1.0), record(2, 2.0)]
    change(lines[1])
    write_history(tmp_path, lines)
    with pytest.raises(DataError) as error:
        read_run(tmp_path)
    assert told in str(error.value)
    assert "history.jsonl" in str(error.value)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"no json", b"[1]\n", b"3\n"])
def test_a_history_of_something_else_is_told(tmp_path, content):
    (tmp_path / "history.jsonl").write_bytes(content)
    with pytest.raises(DataError, match=r"history\.jsonl"):
        read_run(tmp_path)


def test_folders_that_are_no_runs_are_told(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        read_sides([tmp_path / "none"])
    with pytest.raises(DataError, match="holds no run"):
        read_sides([tmp_path])
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(DataError, match="schema_version"):
        read_sides([tmp_path])


def test_a_folder_of_seeds_must_hold_one_experiment(tmp_path):
    finished(tmp_path / "a" / "0")
    finished(tmp_path / "a" / "1", seed=1, experiment_sha256="d" * 64)
    with pytest.raises(DataError, match="runs of different experiments"):
        read_sides([tmp_path / "a"])
    finished(tmp_path / "b" / "0")
    finished(tmp_path / "b" / "again")
    with pytest.raises(DataError, match="holds seed 0 twice"):
        read_sides([tmp_path / "b"])
    finished(tmp_path / "c" / "0")
    write_history(tmp_path / "c" / "1", [record(1, 1.0)])
    with pytest.raises(DataError, match="1: the run is not finished"):
        read_sides([tmp_path / "c"])


# ---------------------------------------------------------------- curves


@pytest.mark.parametrize(("rounds", "window"), [(40, 1), (60, 5), (200, 8)])
def test_the_line_of_the_loss_is_its_moving_mean(tmp_path, rounds, window):
    """Wherever the run was evaluated: rarely at first, often at the end."""
    losses = np.random.default_rng(0).uniform(0, 2, rounds)
    records = [record(i + 1, 1.0 if i > rounds - 5 else None, loss=x) for i, x in enumerate(losses)]
    drawn = mean_losses(read_run(write_history(tmp_path / "run", records)))
    assert list(drawn) == list(range(1, rounds + 1))
    middle = slice(rounds // 2 - window // 2, rounds // 2 - window // 2 + window)
    assert drawn[rounds // 2 + 1] == pytest.approx(losses[middle].mean())


def test_without_a_history_the_results_have_the_loss(tmp_path):
    run = read_run(finished(tmp_path / "run"))
    assert not run.losses
    kept = {r: x for r, x in zip(run.curves.rounds, run.curves.loss, strict=True) if x is not None}
    assert mean_losses(run) == kept != {}


def test_letters_move_apart_as_little_as_possible():
    assert apart([3.0, 1.0, 2.0], 1.0) == [3.0, 1.0, 2.0]
    assert apart([5.0, 5.0], 2.0) == [4.0, 6.0]
    assert apart([0.0, 10.0, 10.5, 20.0], 1.5) == [0.0, 9.5, 11.0, 20.0]
    rng = np.random.default_rng(0)
    for _ in range(50):
        values = rng.uniform(0, 5, 6)
        moved = np.array(apart(values, 1.0))
        assert np.all(np.diff(np.sort(moved)) > 1 - 1e-9)
        assert np.array_equal(np.argsort(moved), np.argsort(values))
        assert moved.mean() == pytest.approx(values.mean())
