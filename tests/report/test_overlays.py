"""Panels and legends of predictions."""

import numpy as np

from fedseg.report.pictures import OPACITY, Classes, Example, draw_example, image_miou

RED, GREEN, BLUE = [200, 0, 0], [0, 180, 0], [0, 0, 250]
CLASSES = Classes(("road", "car", "sky"), [RED, GREEN, BLUE])


def example(file: str = "a.jpg") -> Example:
    """Truth: road left, car right, ignored below; prediction: road everywhere."""
    truth = np.zeros((40, 100), np.uint8)
    truth[:, 50:] = 1
    truth[-10:] = 255
    image = np.full((40, 100, 3), 100, np.uint8)
    return Example(image, truth, np.zeros((40, 100), np.int64), "T01_CN_A", file)


def legend(figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_panels_show_image_truth_and_prediction():
    one = example()
    panels = {axes.get_title(loc="left"): axes for axes in draw_example(one, CLASSES).axes}
    assert list(panels) == ["image", "ground truth", "prediction over image", "prediction"]
    pictures = {n: [image.get_array() for image in axes.images] for n, axes in panels.items()}
    (truth,), (prediction,) = pictures["ground truth"], pictures["prediction"]
    assert truth[5, 5].tolist() == RED and truth[5, 95].tolist() == GREEN
    assert truth[39, 5].tolist() == [0, 0, 0]  # ignored
    assert (prediction == RED).all()
    np.testing.assert_array_equal(pictures["image"][0], one.image)
    under, over = panels["prediction over image"].images
    np.testing.assert_array_equal(under.get_array(), one.image)
    np.testing.assert_array_equal(over.get_array(), prediction)
    assert over.get_alpha() == OPACITY
    assert under.get_zorder() <= over.get_zorder()


def test_image_miou_is_over_the_classes_in_the_truth():
    truth, prediction = np.array([[0, 0, 3, 255]], np.uint8), np.array([[0, 4, 3, 3]])
    assert image_miou(truth, prediction) == 75.0  # 1 of 2 pixels and 1 of 1
    assert image_miou(np.full((4, 4), 255), np.zeros((4, 4), int)) is None


def test_only_occurring_classes_are_in_the_legend():
    assert legend(draw_example(example(), CLASSES)) == ["road", "car", "ignored"]
    with_sky = example()
    with_sky.truth[0, 0] = 2
    assert legend(draw_example(with_sky, CLASSES)) == ["road", "car", "sky", "ignored"]
