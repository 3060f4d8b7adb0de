"""The pipeline: config errors, seeds, and the geometry of the own transforms."""

import math

import albumentations as A
import cv2
import numpy as np
import pytest

from fedseg.datasets import Pipeline
from fedseg.errors import ConfigError
from fedseg.registry import TRANSFORMS

HEIGHT, WIDTH = 90, 120
# Red is the column, green the row; the label is one of the two.
COLUMN, ROW = np.meshgrid(np.arange(WIDTH), np.arange(HEIGHT))
COORDINATES = np.stack([COLUMN, ROW, np.full_like(ROW, 200)], -1).astype(np.uint8)
COLUMN, ROW = COLUMN.astype(np.uint8), ROW.astype(np.uint8)


def crop(**arguments) -> Pipeline:
    return Pipeline([dict(type="RandomScaleCrop", **arguments)])


def source_step(line: np.ndarray) -> float:
    """Source pixels a result pixel, along a line of coordinates."""
    line = line.astype(float)
    return (line[-3] - line[2]) / (len(line) - 5)


def test_image_and_label_stay_aligned() -> None:
    for label, channel in ((COLUMN, 0), (ROW, 1)):
        for seed in range(20):
            image, cut = crop(scale=(0.3, 2.0), crop_size=(40, 50))(COORDINATES, label, seed)
            assert image.shape == (40, 50, 3) and cut.shape == (40, 50)
            inside = cut != 255
            assert ((image[..., 2] == 200) == inside).all()
            # Half a source pixel from the nearest neighbor, half a level from rounding.
            error = image[..., channel].astype(float) - cut
            assert np.abs(error[inside]).max() <= 1.0
            assert abs(error[inside].mean()) < 0.3


def test_scale_is_drawn_from_its_range_and_is_the_same_on_both_axes() -> None:
    pipeline = crop(scale=(0.5, 2.0), crop_size=(40, 50))
    scales = []
    for seed in range(100):
        image, _ = pipeline(COORDINATES, COLUMN, seed)
        across, down = source_step(image[20, :, 0]), source_step(image[:, 25, 1])
        assert across == pytest.approx(down, rel=0.06)
        scales.append(1 / across)
    assert 0.47 < min(scales) < 0.6 and 1.8 < max(scales) < 2.15
    assert np.mean(scales) == pytest.approx(1.25, abs=0.12)


def test_window_reaches_every_border() -> None:
    pipeline = crop(scale=(1.0, 1.0), crop_size=(80, 112))
    corners = {tuple(pipeline(COORDINATES, ROW, seed)[0][0, 0, :2]) for seed in range(300)}
    assert {c for c, _ in corners} == set(range(9)) and {r for _, r in corners} == set(range(11))


def test_equals_scaling_everything_and_cropping_then() -> None:
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    noise[..., 0], noise[..., 1] = COLUMN, ROW
    whole = cv2.resize(noise, (2 * WIDTH, 2 * HEIGHT), interpolation=cv2.INTER_LINEAR)
    image, _ = crop(scale=(2.0, 2.0), crop_size=(40, 50))(noise, ROW, seed=4)
    x, y = 2 * int(image[1, 1, 0]), 2 * int(image[1, 1, 1])
    # A border pixel differs: beyond the cut there is nothing to interpolate with.
    assert (image[1:-1, 1:-1] == whole[y : y + 40, x : x + 50][1:-1, 1:-1]).all()


def test_small_image_is_padded_with_ignore() -> None:
    pipeline = crop(scale=(0.5, 0.5), crop_size=(64, 40), fill=(1, 2, 3))
    tops = set()
    for seed in range(40):
        image, label = pipeline(COORDINATES, COLUMN, seed)
        padding = label == 255
        assert padding.all(axis=1).sum() == 64 - 45 and not padding.all(axis=0).any()
        assert (image[padding] == (1, 2, 3)).all() and (image[~padding][:, 2] == 200).all()
        tops.add(int(np.flatnonzero(~padding[:, 0])[0]))
    assert len(tops) > 8 and max(tops) <= 19


def test_base_size_makes_the_scale_independent_of_the_resolution() -> None:
    double = np.repeat(np.repeat(COORDINATES, 2, axis=0), 2, axis=1)
    pipeline = crop(scale=(0.5, 2.0), crop_size=(40, 50), base_size=(HEIGHT, WIDTH))
    for seed in range(10):
        small, _ = pipeline(COORDINATES, ROW, seed)
        large, _ = pipeline(double, np.repeat(np.repeat(ROW, 2, 0), 2, 1), seed)
        if (small[..., 2] == 200).all():
            step = source_step(small[20, :, 0])
            assert source_step(large[20, :, 0]) == pytest.approx(step, rel=0.06)


def test_flip_does_not_depend_on_the_scale() -> None:
    """Steps draw from one stream: with a stream each from one seed, one draw decides both."""
    zoom = dict(type="RandomScaleCrop", scale=(0.5, 2.0), crop_size=(30, 40))
    pipeline = Pipeline([dict(type="HorizontalFlip", p=0.5), zoom])
    steps = np.array([source_step(pipeline(COORDINATES, ROW, s)[0][15, :, 0]) for s in range(200)])
    flipped, zoomed = steps < 0, np.abs(steps) < 1 / 1.25
    for flip in (True, False):
        for zoom in (True, False):
            assert 25 <= ((flipped == flip) & (zoomed == zoom)).sum() <= 75


def test_resize_input_and_label() -> None:
    image, label = Pipeline([dict(type="ResizeInput", size=(45, 60))])(COORDINATES, ROW, 0)
    assert image.shape == (45, 60, 3) and label.shape == (HEIGHT, WIDTH)
    image, label = Pipeline([dict(type="ResizeLabel", size=[180, 240])])(COORDINATES, ROW, 0)
    assert image.shape == (HEIGHT, WIDTH, 3)
    assert (label == np.repeat(np.repeat(ROW, 2, 0), 2, 1)).all()


def test_albumentations_pad_the_label_with_ignore() -> None:
    step = dict(type="PadIfNeeded", min_height=100, min_width=130)
    _, label = Pipeline([step])(COORDINATES, ROW, 0)
    assert (label == 255).sum() == 100 * 130 - HEIGHT * WIDTH
    _, label = Pipeline([dict(step, fill_mask=7)])(COORDINATES, np.zeros_like(ROW), 0)
    assert (label == 7).sum() == 100 * 130 - HEIGHT * WIDTH
    _, label = Pipeline([dict(type="CoarseDropout", p=1.0)])(COORDINATES, ROW, 0)
    assert (label == ROW).all()


RESIZE = dict(type="Resize", height=5, width=5)
WRONG = [
    (dict(type="HorizontalFlop"), ": .*'HorizontalFlop'.*'HorizontalFlip'"),
    (dict(type="PackSegInputs"), ": .*'PackSegInputs'"),
    (dict(type="BboxParams"), ": .*'BboxParams'"),
    (dict(type="LABStyle"), r": .*dataset\.style"),
    (dict(p=1), ": .*type="),
    (dict(type="RandomScaleCrop", crop=(2, 2)), r"\.crop: .*'crop_size'"),
    (dict(type="HorizontalFlip", prob=1), r"\.prob: "),
    (dict(type="RandomScaleCrop", scale=(1, 2)), "'crop_size'"),
    (dict(type="ColorJitter", p=3.0), r"\.p: "),
    (dict(type="ColorJitter", p=True), r"\.p: "),
    (dict(type="RandomScaleCrop", scale=(True, 2), crop_size=(2, 2)), r"\.scale"),
    (dict(type="OneOf", transforms=[dict(type="Blur", p=False)]), r"\.transforms\[0\]\.p: "),
    (dict(type="RandomScaleCrop", scale=(2, 1), crop_size=(2, 2)), "scale"),
    (dict(type="RandomScaleCrop", scale=(1, 2), crop_size=(2, 0)), r"\.crop_size"),
    (dict(type="RandomScaleCrop", scale=(1, math.inf), crop_size=(2, 2)), r"\.scale"),
    *(
        (dict(type="RandomScaleCrop", scale=one, crop_size=(2, 2)), rf"\.scale: .* 0, not {one}$")
        for one in (0, -1, math.inf)
    ),
    (dict(type="RandomAreaCrop", size=(5, 5), area=0), r"\.area: .* greater than 0, not 0$"),
    (dict(type="RandomScaleCrop", scale=(1, 2), crop_size=(2, 2), fill=(0, 0, 300)), r"\.fill"),
    (dict(type="ResizeInput", size=5), r"\.size"),
    (RESIZE | dict(mask_interpolation=1), r"\.mask_interpolation: must be one of \(0, 6\)"),
    (dict(type="Mosaic"), "needs mosaic_metadata"),
    (dict(type="OneOf", transforms=[dict(type="OverlayElements")]), "needs overlay_metadata"),
    (dict(type="RandomSizedBBoxSafeCrop", height=5, width=5), "needs bboxes"),
    (dict(type="RandomAreaCrop", size=(5, 5), aspect=(2.0, 1.0)), "aspect"),
    (dict(type="ChannelMeanJitter", contrast=1.5), r"\.contrast"),
    (dict(type="OneOf", transforms=[dict(type="Blurr")]), r"\.transforms\[0\]: .*'Blur'"),
]


@pytest.mark.parametrize(("step", "message"), WRONG)
def test_mistakes_are_named(step, message) -> None:
    with pytest.raises(ConfigError, match=rf"dataset\.pipeline\[1\].*{message}"):
        Pipeline([dict(type="HorizontalFlip"), step])


def test_result_must_stay_uint8() -> None:
    for name in ("Normalize", "ToFloat", "ToTensorV2"):
        with pytest.raises(ConfigError, match=r"dataset\.pipeline: .*model\.data_preprocessor"):
            Pipeline([dict(type=name)])(COORDINATES, ROW, 0)


def test_registered_transform_comes_first() -> None:
    class VerticalFlip(A.ImageOnlyTransform):
        def __init__(self, value: int = 9):
            super().__init__(p=1.0)
            self.value = value

        def apply(self, img: np.ndarray, **params) -> np.ndarray:
            return np.full_like(img, self.value)

    TRANSFORMS.register_module(module=VerticalFlip)
    try:
        image, _ = Pipeline([dict(type="VerticalFlip", value=5)])(COORDINATES, ROW, 0)
    finally:
        TRANSFORMS.module_dict.pop("VerticalFlip")
    assert (image == 5).all()
