"""Panels, sheets and legends, at pixels whose color is known."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedseg.report.overlays import (
    OPACITY,
    Classes,
    Example,
    draw_example,
    image_miou,
    occurring,
    panels,
)

RED, GREEN, BLUE = [200, 0, 0], [0, 180, 0], [0, 0, 250]
CLASSES = Classes(("road", "car", "sky"), [RED, GREEN, BLUE])


def example(height: int = 40, width: int = 100, file: str = "a.jpg") -> Example:
    """Truth: road left, car right, ignored below; prediction: road everywhere."""
    truth = np.zeros((height, width), np.uint8)
    truth[:, width // 2 :] = 1
    truth[-height // 4 :] = 255
    image = np.full((height, width, 3), 100, np.uint8)
    return Example(image, truth, np.zeros((height, width), np.int64), "T01_CN_A", file)


def drawn(path: Path, one: Example, width: int) -> np.ndarray:
    return np.asarray(Image.open(draw_example(one, CLASSES, path, width)).convert("RGB"))


def colors(picture: np.ndarray) -> set[tuple[int, ...]]:
    return {tuple(c) for c in np.unique(picture.reshape(-1, 3), axis=0).tolist()}


def test_panels_show_image_truth_prediction_and_blend():
    parts = panels(example(), CLASSES, width=100)
    assert list(parts) == ["image", "ground truth", "prediction over image", "prediction"]
    assert all(p.shape == (40, 100, 3) and p.dtype == np.uint8 for p in parts.values())
    assert parts["image"][5, 5].tolist() == [100, 100, 100]
    assert parts["ground truth"][5, 5].tolist() == RED
    assert parts["ground truth"][5, 95].tolist() == GREEN
    assert parts["ground truth"][39, 5].tolist() == [0, 0, 0]  # ignored
    assert parts["prediction"][5, 95].tolist() == RED
    blended = [OPACITY * c + (1 - OPACITY) * 100 for c in RED]
    assert parts["prediction over image"][39, 95].tolist() == pytest.approx(blended, abs=1)


def test_small_images_grow_by_a_whole_number_and_large_ones_shrink():
    grown = panels(example(10, 30), CLASSES, width=100)
    assert grown["ground truth"].shape == (30, 90, 3)
    assert colors(grown["ground truth"]) == {tuple(RED), tuple(GREEN), (0, 0, 0)}
    shrunk = panels(example(400, 1000), CLASSES, width=100)
    assert shrunk["ground truth"].shape == (40, 100, 3)
    assert colors(shrunk["ground truth"]) == {tuple(RED), tuple(GREEN), (0, 0, 0)}


def test_image_and_label_may_differ_in_size():
    one = example(40, 100)
    small = Example(one.image[::2, ::2], one.truth, one.prediction, "d", "f")
    parts = panels(small, CLASSES, width=100)
    assert parts["image"].shape == parts["ground truth"].shape == (40, 100, 3)


def test_image_miou_is_over_the_classes_in_the_truth():
    truth, prediction = np.array([[0, 0, 3, 255]], np.uint8), np.array([[0, 4, 3, 3]])
    assert image_miou(truth, prediction) == 75.0  # 1 of 2 pixels and 1 of 1


def test_image_miou_without_a_label_is_none():
    assert image_miou(np.full((4, 4), 255), np.zeros((4, 4), int)) is None


def test_only_occurring_classes_are_in_the_legend(tmp_path):
    assert occurring(example(), CLASSES) == [0, 1, 255]
    truth = example().truth.copy()
    truth[0, 0] = 2  # a pixel of sky
    with_sky = Example(**{**vars(example()), "truth": truth})
    assert occurring(with_sky, CLASSES) == [0, 1, 2, 255]
    blue = [
        (drawn(tmp_path / "a.png", e, 100) == BLUE).all(-1).sum() for e in (example(), with_sky)
    ]
    assert blue[0] == 0 and blue[1] > 100  # a box of the legend


def test_one_image_has_four_panels_at_their_place(tmp_path):
    width = 320
    picture = drawn(tmp_path / "new" / "a.png", example(64, 320), width)
    assert picture.shape[1] == 2 * width + 8 + 2 * 20
    middle = 20 + width // 4, 20 + width + 8 + width // 4  # left halves of both columns
    rows = picture[:, middle[0]].tolist(), picture[:, middle[1]].tolist()
    assert rows[0].count([100, 100, 100]) >= 64  # the image
    assert 64 + 48 <= rows[1].count(RED) < 64 + 64  # all of the prediction, 3/4 of the truth
    assert picture[0, 0].tolist() == [255, 255, 255]


def test_a_long_file_name_leaves_the_size_as_it_is(tmp_path):
    path = tmp_path / "a.png"
    short = drawn(path, example(40, 400), 400)
    long = drawn(path, example(40, 400, file=f"{'very_' * 60}long.jpg"), 400)
    assert short.shape == long.shape
    assert (short != long).any()


def test_a_picture_is_as_large_as_its_parts_at_every_width(tmp_path):
    for width in range(301, 321):
        picture = drawn(tmp_path / "a.png", example(30, width), width)
        assert picture.shape[1] == 2 * width + 8 + 2 * 20
