"""Curves and the heat map, drawn from whatever a run left."""

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib import colormaps
from PIL import Image

from fedseg.errors import DataError
from fedseg.report.charts import COLOURS, draw_curves, draw_iou_by_class
from fedseg.runs.run_files import RunFiles, class_table, domain_label, main_metric


def pixels(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB"))


def count(picture: np.ndarray, colour: str | tuple[int, ...]) -> int:
    """Pixels of exactly a colour."""
    if isinstance(colour, str):
        colour = tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return int((picture == np.array(colour, np.uint8)).all(-1).sum())


def history(rounds: int, metric: str = "mIoU") -> list[dict]:
    records = [{"round": i, "loss": 1 / i} for i in range(1, rounds + 1)]
    for record in records[1::2]:
        record["metrics"] = {f"unseen/{metric}": record["round"], f"seen/{metric}": 2.0}
    return records


@pytest.mark.parametrize("metric", ["mIoU", "accuracy"])
def test_curves_have_a_line_a_domain(tmp_path, metric):
    path = draw_curves(RunFiles(tmp_path, history(12, metric), {}), tmp_path / "curves.png")
    picture = pixels(path)
    height, width = picture.shape[:2]
    assert width > 2 * height
    left, right = picture[:, : width // 2], picture[:, width // 2 :]
    assert count(left, COLOURS[0]) > 200  # the loss
    assert count(left, COLOURS[1]) == 0
    assert count(right, COLOURS[0]) > 200  # unseen
    assert count(right, COLOURS[1]) > 200  # seen
    assert count(right, COLOURS[2]) == 0


def test_curves_of_missing_values(tmp_path):
    records = history(8)
    records[2]["loss"] = None
    records[3]["metrics"] = {"unseen/mIoU": None, "seen/mIoU": 1.0}
    records[5].pop("metrics")
    run = RunFiles(tmp_path, records, {})
    assert run.series("mIoU")["unseen"] == [(2, 2), (8, 8)]
    assert draw_curves(run, tmp_path / "curves.png").is_file()


@pytest.mark.parametrize(
    "records", [[], [{"round": 1, "loss": None}], [{"round": 1, "loss": 1.0, "metrics": {}}]]
)
def test_curves_of_next_to_nothing(tmp_path, records):
    picture = pixels(draw_curves(RunFiles(tmp_path, records, {}), tmp_path / "curves.png"))
    assert count(picture[:, picture.shape[1] // 2 :], COLOURS[0]) == 0


def test_heat_map_has_the_colours_of_values_and_classes(tmp_path):
    domains = {
        "unseen": {"mIoU": 50.0, "IoU": {"road": 100.0, "car": 0.0, "sky": None}},
        "seen": {"mIoU": 75.0, "IoU": {"road": 50.0, "car": 100.0, "sky": None}},
    }
    palette = [[128, 64, 128], [0, 0, 142], [70, 130, 180]]
    picture = pixels(draw_iou_by_class(domains, tmp_path / "iou.png", palette))
    shade = {v: tuple(round(255 * c) for c in colormaps["YlGnBu"](v / 100)[:3]) for v in (0, 100)}
    cell = count(picture, shade[100]) // 2  # two cells of 100
    assert cell > 1000
    assert count(picture, shade[0]) == pytest.approx(cell, rel=0.2)
    assert count(picture, (242, 242, 242)) == pytest.approx(2 * cell, rel=0.2)  # two of None
    for colour in palette:
        assert count(picture, tuple(colour)) > 50


def test_no_heat_map_without_iou(tmp_path):
    assert draw_iou_by_class({"seen": {"accuracy": 90.0}}, tmp_path / "iou.png") is None
    assert not (tmp_path / "iou.png").exists()


def test_class_table_keeps_what_is_missing_apart():
    domains = {"a": {"IoU": {"road": 1.0, "car": None}}, "b": {"accuracy": 3.0}}
    assert class_table(domains) == {"road": {"a": 1.0}, "car": {"a": None}}


def test_labels_of_domains():
    domains = ["unseen", "seen", "seen_by_domain", "global:seen", "global:seen_by_domain"]
    labels = [domain_label(d, domains) for d in domains]
    assert labels == [
        "unseen",
        "seen standard",
        "seen by_domain",
        "seen standard, not averaged",
        "seen by_domain, not averaged",
    ]
    assert domain_label("seen", ["seen"]) == "seen"


def test_main_metric():
    assert main_metric(["seen/aAcc", "seen/mIoU"]) == "mIoU"
    assert main_metric(["test/loss", "test/accuracy"]) == "accuracy"
    assert main_metric(["test/error"]) == "error"
    assert main_metric([]) is None


def test_read_leaves_out_a_cut_line(tmp_path):
    (tmp_path / "history.jsonl").write_text(json.dumps({"round": 1, "loss": 2.0}) + '\n{"rou')
    run = RunFiles.read(tmp_path)
    assert [r["round"] for r in run.history] == [1]
    assert run.results == {}


def test_damaged_results_are_named(tmp_path):
    (tmp_path / "results.json").write_text("{")
    with pytest.raises(DataError, match=r"results\.json"):
        RunFiles.read(tmp_path)
