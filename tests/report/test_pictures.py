"""The pictures of a whole run, and that predictions in them are the evaluation's."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import toyseg
from PIL import Image

from fedseg.report import pictures
from fedseg.report.figures import draw_confusion, save_figure
from fedseg.report.pictures import (
    Example,
    draw_example,
    image_miou,
    write_charts,
    write_overlays,
)
from fedseg.report.segmentation import OPACITY, Classes
from fedseg.runner.experiment import load_config, train
from fedseg.runner.runner import FederatedRunner

PALETTE = {"road": (128, 64, 128), "building": (70, 70, 70), "sky": (70, 130, 180)}


@pytest.fixture
def tested(small_config, small_run, tmp_path):
    """A runner that has tested the small run, and all of its predictions."""
    runner = FederatedRunner.from_cfg(load_config(small_config, work_dir=tmp_path / "test"))
    predictions = {}

    def keep(test, domain, indices, batch):
        predictions.update(((domain, i), p.clone()) for i, p in zip(indices, batch, strict=True))

    runner.test(small_run / "checkpoints" / "round_000006.pth", keep)
    return runner, predictions


def test_some_predictions_are_those_of_the_evaluation(tested):
    runner, predictions = tested
    evaluator = runner.test_loop.domains
    chosen = {"unseen": [0, 3], "seen": [2]}
    found = {
        (domain, index): prediction
        for _, domain, index, prediction in evaluator.predict_some(
            runner.server.w, runner.server.buffers, chosen
        )
    }
    assert set(found) == {("unseen", 0), ("unseen", 3), ("seen", 2), ("seen_by_domain", 2)}
    for key, prediction in found.items():
        assert torch.equal(prediction, predictions[key])


def test_confusion_matrices_are_those_of_the_metrics(tested, tmp_path):
    runner, _ = tested
    details = runner.test_loop.details
    for domain in ("unseen", "seen", "seen_by_domain"):
        entry = runner.test_loop.confusions[domain]
        pixels = np.array(entry["pixels"])
        union = pixels.sum(0) + pixels.sum(1) - pixels.diagonal()
        for number, name in enumerate(entry["classes"]):
            if pixels[number].sum():
                iou = 100 * pixels[number, number] / union[number]
                assert iou == pytest.approx(details[domain]["IoU"][name])
    assert save_figure(draw_confusion(entry, "seen"), tmp_path / "c.png").stat().st_size > 1000
    assert runner.test_loop.domains.confusions is None


def test_overlays_of_every_domain(tested, tmp_path, monkeypatch):
    runner, predictions = tested
    server, folder, drawn = runner.server, tmp_path / "pictures", {}

    draw = pictures.draw_example

    def draw_example(example, classes):
        drawn[example.domain, example.file] = example, classes
        return draw(example, classes)

    monkeypatch.setattr(pictures, "draw_example", draw_example)
    paths = write_overlays(runner.test_loop.domains, server.w, server.buffers, folder, count=2)
    assert sorted(str(p.relative_to(folder)) for p in paths) == [
        *("seen/00001_5_T01_CN_A.png", "seen/00003_5_T02_CS_A.png"),
        *("seen_by_domain/00001_5_T01_CN_A.png", "seen_by_domain/00003_5_T02_CS_A.png"),
        *("unseen/00001_1_T03_HRN_A.png", "unseen/00003_3_T03_HRN_A.png"),
    ]
    example, classes = drawn["T03_HRN_A", "1_T03_HRN_A.jpg"]
    assert np.array_equal(example.prediction, predictions["unseen", 1].numpy())
    colors = {tuple(c) for c in classes.table()[example.truth].reshape(-1, 3).tolist()}
    assert colors == {*PALETTE.values(), (0, 0, 0)}
    with Image.open(paths[0]) as picture:
        assert picture.width > 1000


def test_training_leaves_pictures(small_config, tmp_path):
    options = ["default_hooks.pictures.images=3", "train_cfg.max_rounds=2"]
    train(load_config(small_config, work_dir=tmp_path, options=options))
    folder = tmp_path / "pictures"
    names = {str(p.relative_to(folder)) for p in folder.rglob("*.png")}
    assert {"curves.png", "iou_by_class.png"} <= names
    for domain in ("unseen", "seen", "seen_by_domain"):
        assert len(list((folder / domain).iterdir())) == 3


def test_a_failing_picture_is_a_warning(tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError("no room")

    monkeypatch.setattr(pictures, "write_charts", fail)
    hooks = {"pictures": {"type": "PicturesHook"}}
    config = toyseg.run(tmp_path, train_cfg={"max_rounds": 1}, default_hooks=hooks)
    assert "pictures: not all could be drawn: RuntimeError('no room')" in toyseg.logs(config)
    assert (Path(config["work_dir"]) / "results.json").is_file()


def test_classification_has_curves_but_no_overlays(tested, small_run, tmp_path):
    class Digits(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return {"inputs": torch.zeros(3, 8, 8), "data_samples": torch.tensor(index)}

    runner, _ = tested
    evaluator = runner.test_loop.domains
    for test in evaluator.sets:
        test.dataset = Digits()
    server = runner.server
    assert write_overlays(evaluator, server.w, server.buffers, tmp_path / "pictures") == []
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(small_run / "history.jsonl", folder)
    text = (folder / "history.jsonl").read_text().replace("mIoU", "accuracy")
    (folder / "history.jsonl").write_text(text)
    assert [p.name for p in write_charts(folder, folder)] == ["curves.png"]


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
    pictures = {name: axes.images[0].get_array() for name, axes in panels.items()}
    truth = pictures["ground truth"]
    assert truth[5, 5].tolist() == RED and truth[5, 95].tolist() == GREEN
    assert truth[39, 5].tolist() == [0, 0, 0]  # ignored
    assert (pictures["prediction"] == RED).all()
    np.testing.assert_array_equal(pictures["image"], one.image)
    mixed = [round(OPACITY * color + (1 - OPACITY) * 100) for color in RED]
    assert (pictures["prediction over image"] == mixed).all()


def test_image_miou_is_over_the_classes_in_the_truth():
    truth, prediction = np.array([[0, 0, 3, 255]], np.uint8), np.array([[0, 4, 3, 3]])
    assert image_miou(truth, prediction) == 75.0  # 1 of 2 pixels and 1 of 1
    assert image_miou(np.full((4, 4), 255), np.zeros((4, 4), int)) is None


def test_only_occurring_classes_are_in_the_legend():
    assert legend(draw_example(example(), CLASSES)) == ["road", "car", "ignored"]
    with_sky = example()
    with_sky.truth[0, 0] = 2
    assert legend(draw_example(with_sky, CLASSES)) == ["road", "car", "sky", "ignored"]
