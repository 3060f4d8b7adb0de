"""Differences between runs, against values worked out by hand."""

import json
from pathlib import Path

import numpy as np
import pytest
import toyresults
from drawn_labels import overprinted
from PIL import Image
from toyhistory import METRIC, record, write_history

from fedseg.errors import DataError
from fedseg.leaderboard.board import build_board
from fedseg.leaderboard.output import to_markdown
from fedseg.report.compare import compare, read_sides
from fedseg.report.compare_output import (
    draw_clients,
    draw_corruptions,
    draw_curves,
    draw_trends,
    tables,
    write_comparison,
)
from fedseg.report.figures import save_figure
from fedseg.report.tables import markdown_table
from fedseg.runs.run_files import read_runs
from fedseg.runs.schema import read_results
from fedseg.runs.tables import MISSING, differing
from fedseg.units import format_bytes

RAINY = "idda_rainy_heterogeneous"
SPREAD_TITLE = "over clients or domains"


def finished(folder: Path, value: float = 50.0, seed: int = 0, **changes) -> Path:
    return toyresults.write(folder, toyresults.results(RAINY, {METRIC: value}, seed, **changes))


def numbers(table, *names: str, side: str = "B", metric: str = METRIC) -> list[float]:
    """Columns of a metric and side."""
    return [table.loc[(metric, side), name] for name in names]


def compared(*paths, **options):
    return compare(read_sides(paths), **options)


def test_means_are_of_the_last_window(tmp_path):
    for name, gain in (("a", 0.0), ("b", 1.0)):
        # before the last four rounds the second run is far behind
        folder = tmp_path / name
        values = (50 + (gain if r > 6 else -50 * gain) for r in range(1, 11))
        write_history(folder, [record(r, value) for r, value in enumerate(values, 1)])
        config = {"train_cfg": {"max_rounds": 20, "val_last_rounds": 4}}
        (folder / "config.json").write_text(json.dumps(config))
    comparison = compared(tmp_path / "a", tmp_path / "b")
    assert [side.first.window.rounds for side in comparison.sides] == [4, 4]
    assert [side.first.planned for side in comparison.sides] == [20, 20]
    assert numbers(comparison.window, "mean", "difference", "pairs") == [51.0, 1.0, 1]


def test_a_finished_run_has_the_metrics_of_its_results(tmp_path):
    comparison = compared(finished(tmp_path / "a", 50.0), finished(tmp_path / "b", 52.0))
    assert numbers(comparison.last, "mean", "count", side="A") == [50.0, 1]
    assert numbers(comparison.last, "difference", "pairs") == [2.0, 1]
    # half of it in the middle of the run, which is not in the window of 100 rounds
    assert numbers(comparison.window, "mean", "difference") == [52.0, 2.0]
    assert np.isnan(numbers(comparison.window, "std", "difference_std")).all()
    assert np.isnan(numbers(comparison.last, "difference", side="A")).all()


def test_a_metric_of_one_run_only(tmp_path):
    one = write_history(tmp_path / "a", [record(1, 5.0)])
    other = write_history(tmp_path / "b", [record(1, metrics={"seen/aAcc": 70.0, METRIC: None})])
    comparison = compared(one, other)
    assert comparison.metrics == [METRIC, "seen/aAcc"]  # the main metric first
    assert numbers(comparison.last, "mean", side="A") == [5.0]
    assert (METRIC, "B") not in comparison.last.index
    (of_b,) = numbers(comparison.last, "difference", metric="seen/aAcc")
    assert np.isnan(of_b)
    table = tables(comparison)["metrics"]
    assert table["last"].tolist() == ["5.00", MISSING, MISSING, "70.00"]


def test_runs_without_any_metric(tmp_path):
    comparison = compared(*[write_history(tmp_path / name, [record(1)]) for name in "ab"])
    assert comparison.metrics == [] and "metrics" not in tables(comparison)


def test_seeds_are_paired(tmp_path):
    for seed, (base, better) in enumerate([(50.0, 51.0), (40.0, 43.0), (60.0, 65.0)]):
        finished(tmp_path / "a" / str(seed), base, seed)
        finished(tmp_path / "b" / str(seed), better, seed)
    comparison = compared(tmp_path / "a", tmp_path / "b")
    assert numbers(comparison.last, "mean", "std", "count", side="A") == [50.0, 10.0, 3]
    for table in (comparison.last, comparison.window):
        # 1, 3, 5, divided by n - 1
        assert numbers(table, "difference", "difference_std", "pairs") == [3.0, 2.0, 3]
    row = tables(comparison)["metrics"].iloc[1]
    assert row["last - A"] == "+3.00 ± 2.00"
    one_seed = compared(tmp_path / "a", tmp_path / "b" / "1")
    assert numbers(one_seed.last, "difference", "pairs") == [3.0, 1]
    assert tables(one_seed)["metrics"].iloc[1]["last - A"] == "+3.00 (1 of 3 seeds)"


def test_seeds_that_only_one_side_has_cannot_be_paired(tmp_path):
    for seed, value in enumerate((50.0, 40.0)):
        finished(tmp_path / "a" / str(seed), value, seed)
    other = finished(tmp_path / "b", 49.0, seed=7)
    comparison = compared(tmp_path / "a", other)
    assert numbers(comparison.last, "difference", "pairs") == [4.0, 0]
    assert tables(comparison)["metrics"].iloc[1]["last - A"] == "+4.00 (unpaired)"
    assert any("seeds (0, 1 and 7)" in note for note in comparison.notes)


def test_configs_differ_where_they_do(tmp_path):
    both = {"model": {"type": "CNN"}, "train_cfg": {"max_rounds": 3}}
    for name, more in {"a": {"work_dir": "x"}, "b": {"algorithm": {"mu": 0.1}}}.items():
        folder = write_history(tmp_path / name, [record(1, 5.0)])
        (folder / "config.json").write_text(json.dumps({**both, **more}))
    comparison = compare(read_sides([tmp_path / "a", tmp_path / "b"]))
    assert comparison.config.loc["algorithm.mu"].tolist() == [MISSING, 0.1]
    assert len(comparison.config) == 1


def test_only_what_differs_is_left():
    rows = differing([{"a": 1, "b": [1], "c": None}, {"a": 1.0, "b": [2], "d": "x"}])
    assert rows == {"b": ([1], [2]), "c": (None, MISSING), "d": (MISSING, "x")}
    assert differing([{"a": 1}, {"a": 1}, {"a": 2}]) == {"a": (1, 1, 2)}


def test_without_a_config_copy_configs_are_not_compared(tmp_path):
    stopped = write_history(tmp_path / "b", [record(1, 5.0)])
    comparison = compare(read_sides([finished(tmp_path / "a"), stopped]))
    assert comparison.config.empty and comparison.conditions.empty
    assert any("config.json" in note for note in comparison.notes)


def test_other_test_images_have_no_difference(tmp_path):
    one = finished(tmp_path / "a")
    other = finished(tmp_path / "b", data__test_unseen__split_checksum="1" * 64)
    comparison = compare(read_sides([one, other]))
    assert numbers(comparison.last, "mean") == [50.0]
    assert np.isnan(numbers(comparison.last, "difference")).all()
    assert np.isnan(numbers(comparison.window, "difference")).all()
    assert any("images in unseen" in note for note in comparison.notes)
    assert comparison.conditions.index.tolist() == ["data.test:unseen.split_checksum"]


@pytest.mark.parametrize("domain", ["unseen/boundary", "unseen_by_domain/boundary"])
def test_other_test_images_have_no_difference_in_a_metric_with_a_prefix(tmp_path, domain):
    name = f"{domain}/mIoU"
    for run, checksum in (("a", "0"), ("b", "1")):
        final = {METRIC: 50.0, name: 40.0}
        images = {"data__test_unseen__split_checksum": checksum * 64}
        toyresults.write(tmp_path / run, toyresults.results(RAINY, final, **images))
    comparison = compare(read_sides([tmp_path / "a", tmp_path / "b"]))
    assert comparison.last.loc[name, "mean"].tolist() == [40.0, 40.0]
    assert comparison.last.loc[name, "difference"].isna().all()
    assert comparison.window.loc[name, "difference"].isna().all()


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"data__train__partition_sha256": "9" * 64}, "splits"),
        ({"versions": {"python": "3.9"}}, "versions"),
        ({"device": "cuda", "threads": 2}, "device and threads"),
        ({"seed": 5}, "seeds (0 and 5)"),
        ({"config__val_dataloader__unseen__transforms": [{"type": "Other"}]}, "images of unseen"),
    ],
)
def test_every_reason_not_to_compare_has_a_note(tmp_path, changes, word):
    one = finished(tmp_path / "a")
    content = toyresults.changed(toyresults.results(RAINY, {METRIC: 50.0}), **changes)
    comparison = compare(read_sides([one, toyresults.write(tmp_path / "b", content)]))
    assert sum(word in note for note in comparison.notes) == 1
    assert numbers(comparison.last, "difference") == [0.0]


def test_costs_and_norms_of_the_last_round(tmp_path):
    one = finished(tmp_path / "a")
    norms = ({"norm_w": 5.0, "norm_delta": 2.0}, {"norm_w": 7.0, "norm_delta": None})
    lines = [record(r, rejected=[1] * (r == 2), **norm) for r, norm in enumerate(norms, start=1)]
    comparison = compared(one, write_history(tmp_path / "b", lines))
    costs = comparison.costs.set_index("side")
    assert costs["rounds"].tolist() == [toyresults.setting(RAINY).rounds, 2]
    assert costs.loc["B", ["bytes_down", "bytes_up", "bytes"]].tolist() == [200, 100, 300]
    assert costs["train"].tolist() == [50.0, 4.0]
    assert costs["rejected_updates"].tolist() == [0, 1]
    texts = tables(comparison)["cost"]
    assert texts.loc["wall time"].tolist() == ["0:01:00", MISSING]
    assert texts.loc["norm of the parameters, last round"].tolist() == [MISSING, "7"]
    assert "norm of the pseudo-gradient, last round" not in texts.index


def reached_texts(comparison, column: str) -> list[str]:
    """A column of the target, without its name."""
    table = tables(comparison)["metrics"]
    return table.filter(like=column).iloc[:, 0].tolist()


def test_the_first_evaluation_that_reaches_a_target_counts(tmp_path):
    values = {2: 19.9, 4: 20.0, 6: 15.0, 8: 30.0}
    one = write_history(tmp_path / "a", [record(r, values.get(r)) for r in range(1, 9)])
    low = write_history(tmp_path / "b", [record(r, 10.0) for r in range(1, 9)])
    other = {"metrics": {"seen/mIoU": 50.0, "unseen/accuracy": 50.0}}
    without = write_history(tmp_path / "c", [record(1, **other)])
    comparison = compared(one, low, without, until=20.0)
    assert comparison.metrics == [METRIC, "seen/mIoU", "unseen/accuracy"]
    of_main = ["4", "not reached", MISSING, MISSING, MISSING, "1"]
    assert reached_texts(comparison, "rounds until 20") == [*of_main, *[MISSING] * 3]
    assert reached_texts(comparison, "traffic")[0] == format_bytes(4 * 150)
    assert "traffic" not in tables(compared(one, low))["metrics"]


def test_seeds_reach_a_target_on_average(tmp_path):
    for seed, rounds in enumerate(([10, 20], [20, 40], [30, 60])):
        curves = {"rounds": rounds, "bytes": [100, 200], "loss": [1.0, 1.0]}
        curves["figures"] = {METRIC: [10.0, 49.0 + seed]}
        final = {"unseen": {"mIoU": 49.0 + seed}}
        run = {"rounds": rounds[-1], "completed_rounds": rounds[-1], "final": final}
        finished(tmp_path / "seeds" / str(seed), seed=seed, curves=curves, **run)
    comparison = compared(tmp_path / "seeds", until=50.0)
    assert reached_texts(comparison, "rounds until") == ["50 ± 14 (2 of 3 seeds)"]
    assert reached_texts(comparison, "traffic") == ["200 B"]
    assert reached_texts(compared(tmp_path / "seeds", until=52.0), "rounds until") == [
        "not reached"
    ]


def test_windows_that_end_at_shares_of_the_rounds(tmp_path):
    """As accuracy at 50 % of the rounds: a mean over the evaluations of the rounds before."""
    config = {"train_cfg": {"max_rounds": 20, "val_last_rounds": 4}}
    for seed, gain in enumerate((0.0, 2.0)):
        lines = [record(r, r + gain if r % 2 == 0 else None) for r in range(1, 16)]
        folder = write_history(tmp_path / str(seed), lines)
        (folder / "config.json").write_text(json.dumps(config))
    comparison = compared(tmp_path / "0", tmp_path / "1", shares=(50, 75, 100))
    (table,) = (table for title, table in tables(comparison).items() if "share" in title)
    assert table.columns.tolist() == ["side", "at 50 %", "at 75 %", "at 100 %"]
    assert table.iloc[0].tolist() == ["A", "9.00", "13.00", MISSING]  # of 8, 10; of 12, 14
    assert table.iloc[1].tolist() == ["B", "11.00", "15.00", MISSING]


def test_corruptions_of_several_runs_are_one_map(tmp_path):
    paths = []
    runs = {"a": {"fog": [50.0, 30.0]}, "b": {"fog": [60.0, 40.0], "snow": [9, 1]}}
    for name, values in runs.items():
        content = toyresults.results(RAINY, {METRIC: 50.0}, name=name)
        content["final"]["corrupted"] = {"accuracy": 40.0, "corruptions": values}
        paths.append(toyresults.write(tmp_path / name, content))
    paths.append(finished(tmp_path / "c"))
    figure = draw_corruptions(read_sides(paths))
    values = np.ma.filled(figure.axes[0].collections[0].get_array(), np.nan).reshape(3, 3)
    expected = [[40, 50, np.nan], [np.nan, 5, np.nan], [40, 27.5, np.nan]]
    np.testing.assert_array_equal(values, expected)
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["fog", "snow", "mean"]
    assert draw_corruptions(read_sides(paths[2:])) is None
    figure = draw_corruptions(read_sides(paths), severity=2)
    values = np.ma.filled(figure.axes[0].collections[0].get_array(), np.nan).reshape(3, 3)
    np.testing.assert_array_equal(
        values, [[30, 40, np.nan], [np.nan, 1, np.nan], [30, 20.5, np.nan]]
    )
    with pytest.raises(DataError, match="--severity: a was tested at 1, 2, not at 5"):
        draw_corruptions(read_sides(paths), severity=5)
    for damaged in ({"fog": 3}, {"fog": [1.0], "snow": [1.0, 2.0]}, {"fog": {"1": 2.0}}, 3):
        content["final"]["corrupted"]["corruptions"] = damaged
        side = read_sides([toyresults.write(tmp_path / "d", content)])
        if damaged == 3:
            assert draw_corruptions(side) is None
        else:
            with pytest.raises(DataError, match=r"corruptions\.\w+: must have an accuracy"):
                draw_corruptions(side)


def test_many_runs_have_a_panel_each(tmp_path):
    lines = {name: [record(r, r * n) for r in (1, 2)] for n, name in enumerate("abcde")}
    sides = read_sides(write_history(tmp_path / name, records) for name, records in lines.items())
    panels = [axes for axes in draw_trends(sides, [METRIC]).axes if axes.axison]
    for number, (one, axes) in enumerate(zip(sides, panels, strict=True)):
        assert axes.get_title() == f"{one.label}  {one.first.name}"
        assert len(axes.lines) == 5 and list(axes.lines[-1].get_ydata()) == [number, 2 * number]
    assert draw_trends(sides[:4], [METRIC]) is None and draw_trends(sides * 5, [METRIC]) is None


def test_metrics_are_grouped(tmp_path):
    order = ["b/aAcc", "b/mIoU", "b/mAcc", "a/aAcc", "a/mIoU"]
    folder = write_history(tmp_path, [record(1, metrics=dict.fromkeys(order, 1.0))])
    metrics = compared(folder, folder).metrics
    assert metrics == ["b/mIoU", "a/mIoU", "b/aAcc", "a/aAcc", "b/mAcc"]


def over_clients(values):
    """A metric and what it is over clients."""
    spread = {"": values[0] + 1, "_mean": np.mean(values), "_std": np.std(values)}
    spread |= {"_worst10": values[0], "_worst": values[0]}
    return {f"clients/mIoU{end}": float(value) for end, value in spread.items()}


@pytest.fixture
def two_methods(tmp_path):
    """Two seeds of one method and one of another, with accuracies of three clients."""
    clients = {"fedavg/0": [20.0, 40.0, 60.0], "fedavg/1": [22.0, 40.0, 60.0], "ditto": [30.0] * 3}
    for number, (name, values) in enumerate(clients.items()):
        seed = number % 2
        changes = {"experiment_sha256": "d" * 64} if name == "ditto" else {}
        content = toyresults.results(RAINY, {METRIC: 50.0} | over_clients(values), seed, **changes)
        toyresults.write(tmp_path / name, content | {"name": name.partition("/")[0]})
        each = {str(number): {"images": 2, "mIoU": value} for number, value in enumerate(values)}
        file = {"round": 1, "sets": {"clients": each}, "all": {}}
        (tmp_path / name / "clients.json").write_text(json.dumps(file))
    return [tmp_path / "fedavg", tmp_path / "ditto"]


def test_a_table_and_a_picture_of_the_clients(two_methods, tmp_path):
    comparison = compare(read_sides(two_methods))
    metrics = tables(comparison)["metrics"]
    spread = tables(comparison)[SPREAD_TITLE]
    assert not any("worst" in name or "_std" in name for name in metrics.index)
    assert spread.columns.tolist() == ["side", "all images", "mean", "std", "worst 10 %", "worst"]
    first, second = spread.iloc[0].tolist(), spread.iloc[1].tolist()
    assert first[2] == "40.33 ± 0.47" and first[4:] == ["21.00 ± 1.41"] * 2
    assert second == ["B", "31.00", "30.00", "0.00", "30.00", "30.00"]
    (axes,) = draw_clients(comparison.sides).axes
    curves = [set(line.get_xdata().tolist()) - {-np.inf} for line in axes.lines]
    assert {20.0, 22.0, 40.0, 60.0} in curves and {30.0} in curves
    written = write_comparison(comparison, tmp_path / "compare")
    assert [path.name for path in written] == ["compare.md", "curves.png", "clients.png"]
    (tmp_path / "mine").mkdir()
    for folder in ("compare", "mine"):  # only charts of an earlier comparison are removed
        (tmp_path / folder / "trends.png").write_text("of another one")
        write_comparison(compare(read_sides(two_methods[1:])), tmp_path / folder)
    left = sorted(path.name for path in (tmp_path / "compare").iterdir())
    assert left == ["clients.png", "compare.md", "curves.png"]
    assert (tmp_path / "mine" / "trends.png").is_file()
    names = {METRIC: 50.0} | over_clients([9.0])  # a row of the same method and name
    twin = toyresults.results(RAINY, names, data__train__content_sha256="9" * 64)
    toyresults.write(tmp_path / "twin", twin | {"name": "fedavg"})
    text = to_markdown(build_board(*read_runs([tmp_path])))
    assert SPREAD_TITLE in text and text.count("21.00 ± 1.41") >= 2
    file = two_methods[1] / "clients.json"
    file.write_text(file.read_text().replace('"clients"', '"clients": 3, "x"'))
    with pytest.raises(DataError, match=r"clients\.json"):
        draw_clients(read_sides(two_methods))


def test_a_real_run_equals_itself(wide_run):
    comparison = compare(read_sides([wide_run, wide_run / "results.json"]))
    assert comparison.config.empty and comparison.conditions.empty
    results = read_results(wide_run / "results.json")
    for domain in ("seen", "seen_by_domain", "unseen"):
        name = f"{domain}/mIoU"
        assert numbers(comparison.last, "mean", side="A", metric=name) == [
            results.final[domain]["mIoU"]
        ]
        assert numbers(comparison.window, "mean", side="A", metric=name) == [
            results.last_rounds.mean[name]
        ]
        assert numbers(comparison.window, "difference", metric=name) == [0.0]
    # details beside the metrics are left out
    assert not any("domains" in name or name.endswith("/IoU") for name in comparison.metrics)
    assert comparison.notes == ("The configs do not differ.",)


def test_a_stopped_run_is_marked(small_run, tmp_path):
    lines = (small_run / "history.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "history.jsonl").write_text("".join(lines[:4]))
    notes = compare(read_sides([small_run, tmp_path])).notes
    assert any("B is not finished (4 rounds)" in note for note in notes)
    assert any("(A 6, B 4)" in note for note in notes)


def test_many_domains_and_a_name_like_a_formula(tmp_path):
    figures = {f"domain{number}/mIoU": 50.0 for number in range(100)}
    paths = []
    for name in ("a$\\frac{$", "b"):
        lines = [{**record(r, 1.0), "metrics": figures} for r in (1, 2)]
        paths.append(write_history(tmp_path / name, lines))
    comparison = compare(read_sides(paths))
    figure = draw_curves(comparison.sides, comparison.metrics)
    picture = save_figure(figure, tmp_path / "curves.png")
    with Image.open(picture) as image:
        assert image.height < 5000  # 24 panels, three in a row
    lines[-1]["metrics"] = {"seen/mIoU": 100.5}
    with pytest.raises(DataError, match=r"seen/mIoU: is 100\.5, must be from 0 to 100"):
        compare(read_sides([write_history(tmp_path / "c", lines)] * 2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 1, "experiment_sha256": "d" * 64}, "different experiments"),
        ({"seed": 1, "data__test_unseen__split_checksum": "9" * 64}, "different experiments"),
        ({"seed": 0}, "seed 0"),
        (None, r"1: .*not finished"),
    ],
)
def test_a_folder_of_seeds_must_hold_one_experiment(tmp_path, changes, message):
    finished(tmp_path / "0")
    if changes is None:
        write_history(tmp_path / "1", [record(1, 1.0)])
    else:
        finished(tmp_path / "1", **changes)
    with pytest.raises(DataError, match=message):
        read_sides([tmp_path])


def test_runs_of_a_grid_have_legends_of_their_own(tmp_path):
    """They share the experiment's name and differ in their folders."""
    paths = [tmp_path / f"shapes,lr={rate}" / "seed0" for rate in (0.1, 0.5)]
    for path in paths:
        content = toyresults.results(RAINY, {METRIC: 50.0}, name="shapes")
        content["final"]["corrupted"] = {"accuracy": 40.0, "corruptions": {"fog": [50.0]}}
        toyresults.write(path, content)
    paths.append(finished(tmp_path / "other", name="another"))
    sides = read_sides(paths)
    names = ["shapes,lr=0.1/seed0", "shapes,lr=0.5/seed0", "another"]
    assert [side.name for side in sides] == names
    comparison = compare(sides)
    (legend,) = draw_curves(sides, comparison.metrics).legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert [text.split("  ")[1].split(", seed ")[0] for text in texts] == names
    columns = draw_corruptions(sides).axes[0]
    assert [label.get_text() for label in columns.get_xticklabels()] == [
        f"{side.label}\n{side.name}" for side in sides
    ]
    assert overprinted(columns) == []


def test_seeds_are_a_line_within_a_band(tmp_path):
    for seed, base in enumerate((10.0, 30.0)):
        values = {2: base, 4: base + 20}
        curves = {"rounds": list(values), "bytes": [100, 200], "loss": [1.0, 1.0]}
        curves["figures"] = {METRIC: list(values.values())}
        run = {"rounds": 4, "completed_rounds": 4, "final": {"unseen": {"mIoU": base + 20}}}
        finished(tmp_path / "seeds" / str(seed), seed=seed, curves=curves, **run)
    sides = read_sides([tmp_path / "seeds"])
    _, axes, *_ = draw_curves(sides, [METRIC]).axes
    assert axes.lines[0].get_xydata().tolist() == [[2, 20], [4, 40]]
    (band,) = axes.collections
    low, high = band.get_paths()[0].vertices[:, 1].min(), band.get_paths()[0].vertices[:, 1].max()
    std = np.std([10, 30], ddof=1)
    assert (low, high) == (pytest.approx(20 - std), pytest.approx(40 + std))


def test_names_are_no_markdown(tmp_path):
    path = finished(tmp_path / "a|b*c", 50.0)
    text = markdown_table(tables(compared(path, path))["runs"])
    assert "a\\|b\\*c" in text
    assert len({line.replace("\\|", "").count("|") for line in text.splitlines()}) == 1
