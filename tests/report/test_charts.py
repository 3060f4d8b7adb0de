"""Curves and the heat map, drawn from whatever a run left."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib import colormaps
from PIL import Image
from toyhistory import record

from fedseg.report.charts import draw_curves, draw_iou_by_class
from fedseg.report.drawing import COLORS, moving_mean
from fedseg.runs.run_files import RunFiles


def pixels(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB"))


def count(picture: np.ndarray, color: str | tuple[int, ...]) -> int:
    """Pixels of exactly a color."""
    if isinstance(color, str):
        color = tuple(int(color[i : i + 2], 16) for i in (1, 3, 5))
    return int((picture == np.array(color, np.uint8)).all(-1).sum())


def run_of(folder: Path, rounds: int, metric: str = "mIoU", evaluated: bool = True) -> RunFiles:
    """Evaluated every other round."""
    records = [record(i) for i in range(1, rounds + 1)]
    for line in records[1::2] if evaluated else ():
        line["metrics"] = {f"unseen/{metric}": line["round"], f"seen/{metric}": 2.0}
    return RunFiles(folder, None, records)


def test_curves_have_a_line_for_each_domain(tmp_path):
    for metric, rounds in (("mIoU", 12), ("accuracy", 80)):
        path = draw_curves(run_of(tmp_path, rounds, metric), tmp_path / "curves.png")
        picture = pixels(path)
        height, width = picture.shape[:2]
        assert width > 2 * height
        left, right = picture[:, : 2 * width // 5], picture[:, width // 2 :]
        assert count(left, COLORS[0]) > 200  # the loss
        assert count(left, COLORS[1]) == 0
        assert count(right, COLORS[0]) > 200  # unseen
        assert count(right, COLORS[1]) > 200  # seen
        assert count(right, COLORS[2]) == 0


def test_the_moving_mean_is_shorter_at_the_ends():
    values = np.array([1.0, 2.0, 3.0, 7.0, 5.0])
    assert moving_mean(values, 3).tolist() == [1.5, 2.0, 4.0, 5.0, 6.0]


def test_curves_of_missing_values(tmp_path):
    run = run_of(tmp_path, 8)
    run.history[2]["loss"] = None
    run.history[3]["metrics"] = {"unseen/mIoU": None, "seen/mIoU": 1.0}
    run.history[5].pop("metrics")
    assert run.series("unseen/mIoU") == {2: 2, 8: 8}
    assert draw_curves(run, tmp_path / "curves.png").is_file()


def test_curves_without_evaluation(tmp_path):
    for records in ([], [record(1, loss=None)], [record(1, metrics={})]):
        run = RunFiles(tmp_path, None, records)
        picture = pixels(draw_curves(run, tmp_path / "curves.png"))
        assert count(picture[:, picture.shape[1] // 2 :], COLORS[0]) == 0


def test_heat_map_has_the_colors_of_values_and_classes(tmp_path):
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
    for color in palette:
        assert count(picture, tuple(color)) > 50


def test_no_heat_map_without_iou(tmp_path):
    assert draw_iou_by_class({"seen": {"accuracy": 90.0}}, tmp_path / "iou.png") is None
    assert not (tmp_path / "iou.png").exists()
