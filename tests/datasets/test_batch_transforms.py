"""Batched augmentation against its readable twins; statistics of its draws."""

import math

import numpy as np
import pytest
import torch
from batch_twins import one_by_one

from fedseg.datasets.batch_transforms import (
    BatchPipeline,
    BatchTransform,
    Cutout,
    Mixup,
    Normalize,
    RandomCrop,
    RandomFlip,
)
from fedseg.errors import ConfigError
from fedseg.registry import BATCH_TRANSFORMS

CLASSES = 7
MEANS, STDS = (0.49, 0.48, 0.45, 0.3), (0.25, 0.24, 0.26, 0.5)
SHAPES = [(8, 8, 3), (32, 32, 3), (28, 28, 1), (7, 5, 3), (5, 9, 1), (1, 1, 1), (3, 4, 2)]
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}


def normalize(channels: int) -> dict:
    return {"type": "Normalize", "mean": MEANS[:channels], "std": STDS[:channels]}


def pipeline(steps, shape, dtype=torch.float32) -> BatchPipeline:
    return BatchPipeline(steps, shape, CLASSES, dtype, "transforms")


def draws_of(pipe: BatchPipeline, sizes, seed: int = 0) -> list[dict[str, np.ndarray]]:
    return pipe.draw(sizes, seed, "test")


def batch(count: int, shape, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, *shape])
    return rng.integers(0, 256, (count, *shape), dtype=np.uint8), rng.integers(0, CLASSES, count)


def tensors(draws):
    return [{name: torch.from_numpy(rows) for name, rows in own.items()} for own in draws]


def both(steps, shape, count=9, dtype=torch.float32, seed=0):
    """A batch through ``apply`` and through the twins: (batch, twin, images, labels, draws)."""
    pipe = pipeline(steps, shape, dtype)
    images, labels = batch(count, shape, seed)
    draws = draws_of(pipe, [count], seed)
    made = pipe.apply(torch.from_numpy(images), torch.from_numpy(labels), tensors(draws))
    return made, one_by_one(pipe, images, labels, draws), images, labels, draws


def assert_same(made, twin, tolerance):
    for name in ("inputs", "data_samples"):
        assert tuple(made[name].shape) == twin[name].shape
        if twin[name].dtype.kind in "iu":
            assert np.array_equal(made[name].numpy(), twin[name]), name
        else:
            error = np.abs(made[name].numpy() - twin[name]).max()
            assert error <= tolerance, f"{name}: {error}"


# ---------------------------------------------------------------- twins

PIPELINES = {
    "nothing": lambda c: [],
    "normalize": lambda c: [normalize(c)],
    "crop": lambda c: [{"type": "RandomCrop"}],
    "crop without padding": lambda c: [{"type": "RandomCrop", "padding": 0}],
    "small crop without padding": lambda c: [{"type": "RandomCrop", "padding": 0, "size": 1}],
    "small crop": lambda c: [{"type": "RandomCrop", "padding": 2, "size": 3}],
    "crop larger than the image": lambda c: [{"type": "RandomCrop", "padding": 20, "size": 37}],
    "flip": lambda c: [{"type": "RandomFlip"}],
    "whole batches": lambda c: [
        {"type": "RandomCrop", "whole_batch": True},
        {"type": "RandomFlip", "whole_batch": True},
    ],
    "crop and flip": lambda c: [{"type": "RandomCrop", "padding": 3}, {"type": "RandomFlip"}],
    "flip, then crop": lambda c: [{"type": "RandomFlip"}, {"type": "RandomCrop", "size": 6}],
    "floats flipped": lambda c: [normalize(c), {"type": "RandomFlip"}],
    "floats cropped": lambda c: [normalize(c), {"type": "RandomCrop"}],
    "cutout 1": lambda c: [normalize(c), {"type": "Cutout", "size": 1}],
    "cutout 2": lambda c: [normalize(c), {"type": "Cutout", "size": 2}],
    "cutout 5": lambda c: [normalize(c), {"type": "Cutout", "size": 5}],
    "cutout of everything": lambda c: [normalize(c), {"type": "Cutout", "size": 99}],
    "mixup": lambda c: [normalize(c), {"type": "Mixup", "alpha": 0.7}],
    "mixup, then cutout": lambda c: [
        normalize(c),
        {"type": "Mixup"},
        {"type": "Cutout", "size": 3},
    ],
    "mixup twice": lambda c: [normalize(c), {"type": "Mixup"}, {"type": "Mixup", "alpha": 0.3}],
    "all": lambda c: [
        {"type": "RandomCrop", "padding": 2},
        {"type": "RandomFlip"},
        normalize(c),
        {"type": "Cutout", "size": 4},
        {"type": "Mixup", "alpha": 1.0},
    ],
}


@pytest.mark.parametrize("name", PIPELINES)
def test_a_batch_is_its_images_one_by_one(name):
    for shape in SHAPES:
        steps = PIPELINES[name](shape[2])
        for dtype, tolerance in TOLERANCE.items():
            for count in (1, 9):
                made, twin, *_ = both(steps, shape, count, dtype, seed=count)
                assert_same(made, twin, tolerance)
                floats = any(step["type"] == "Normalize" for step in steps)
                assert made["inputs"].dtype == (dtype if floats else torch.uint8)
                mixed = any(step["type"] == "Mixup" for step in steps)
                assert made["data_samples"].dtype == (dtype if mixed else torch.int64)


def test_what_is_given_is_not_changed():
    shape = (8, 8, 3)
    pipe = pipeline(PIPELINES["all"](3), shape)
    images, labels = map(torch.from_numpy, batch(6, shape))
    before = images.clone(), labels.clone()
    draws = tensors(draws_of(pipe, [6]))
    kept = [{name: rows.clone() for name, rows in own.items()} for own in draws]
    first = pipe.apply(images, labels, draws)
    second = pipe.apply(images, labels, draws)
    assert torch.equal(images, before[0]) and torch.equal(labels, before[1])
    assert all(torch.equal(a[n], b[n]) for a, b in zip(draws, kept, strict=True) for n in b)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_batches_come_in_channels_last_strides():
    for name in ("nothing", "crop and flip", "all"):
        made, *_ = both(PIPELINES[name](3), (8, 6, 3), 5)
        assert made["inputs"].shape == (5, 3, 8, 6)
        assert made["inputs"].is_contiguous(memory_format=torch.channels_last)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_the_same():
    for name in PIPELINES:
        for shape in ((8, 8, 3), (7, 5, 3)):
            pipe = pipeline(PIPELINES[name](3), shape)
            images, labels = batch(9, shape)
            draws = draws_of(pipe, [9])
            device = [{n: rows.cuda() for n, rows in own.items()} for own in tensors(draws)]
            made = pipe.apply(
                torch.from_numpy(images).cuda(), torch.from_numpy(labels).cuda(), device
            )
            made = {n: value.cpu() for n, value in made.items()}
            assert_same(made, one_by_one(pipe, images, labels, draws), 1e-6)


# ---------------------------------------------------------------- draws

SIZES = [64] * 50 + [37]
TOTAL = sum(SIZES)


def chi_square(counts, expected) -> float:
    return float(((np.asarray(counts) - expected) ** 2 / expected).sum())


def own_draws(step: BatchTransform, shape=(8, 8, 3), sizes=SIZES, seed=1):
    step.check(shape, CLASSES)
    return step.draw(np.random.default_rng(seed), sizes)


@pytest.mark.parametrize(
    ("step", "shape", "rows", "columns", "bound"),
    [
        (RandomCrop(padding=4), (8, 8, 3), "top", "left", 124.8),
        (Cutout(3), (5, 7, 3), "y", "x", 65.2),  # every pixel, those at the borders too
    ],
)
def test_places_are_uniform(step, shape, rows, columns, bound):
    """0.1 % of a chi-square: 81 places of a crop with padding 4, and 35 pixels."""
    width, places = (9, 81) if rows == "top" else (7, 35)
    draws = own_draws(step, shape, sizes=[places * 100])
    counts = np.bincount(draws[rows] * width + draws[columns], minlength=places)
    assert len(counts) == places and chi_square(counts, 100) < bound


def test_rate_of_flips():
    for prob in (0.0, 0.1, 0.5, 1.0):
        rate = own_draws(RandomFlip(prob))["flip"].mean()
        assert abs(rate - prob) <= 3.3 * math.sqrt(prob * (1 - prob) / TOTAL)


def test_a_whole_batch_may_share_its_draws():
    """One place and one flip a batch, drawn like those of single images."""
    sizes = [7] * 81 * 20
    first = np.cumsum([0, *sizes[:-1]])
    draws = own_draws(RandomCrop(padding=4, whole_batch=True), sizes=sizes)
    draws |= own_draws(RandomFlip(0.5, whole_batch=True), sizes=sizes)
    for rows in draws.values():
        assert (rows == rows[first].repeat(sizes)).all()
    counts = np.bincount(draws["top"][first] * 9 + draws["left"][first], minlength=81)
    assert len(counts) == 81 and chi_square(counts, 20) < 124.8
    flips = draws["flip"][first]
    assert abs(flips.mean() - 0.5) <= 3.3 * math.sqrt(0.25 / len(sizes))


def test_mixup_draws_one_weight_per_batch_from_beta():
    for alpha in (0.2, 1.0, 4.0):
        sizes = [3, 1] * 2000
        draws = own_draws(Mixup(alpha), sizes=sizes)
        weights = draws["weight"].reshape(-1, 4)
        assert (weights[:, 0] == weights[:, 1]).all() and (weights[:, 0] == weights[:, 2]).all()
        assert (weights[:, 0] != weights[:, 3]).all(), "the next batch has its own"
        values = weights[:, [0, 3]].ravel()
        assert values.min() >= 0 and values.max() <= 1
        variance = 1 / (4 * (2 * alpha + 1))
        assert abs(values.mean() - 0.5) < 4 * math.sqrt(variance / len(values))
        assert abs(values.var() - variance) < 0.1 * variance


def test_mixup_pairs_within_the_batch_by_a_uniform_permutation():
    """0.1 % of a chi-square with 23 degrees is 49.7."""
    sizes = [4, 3] * 2400
    other = own_draws(Mixup(), sizes=sizes)["other"].reshape(-1, 7)
    assert all(sorted(row) == [0, 1, 2, 3] for row in other[:, :4].tolist())
    assert all(sorted(row) == [0, 1, 2] for row in other[:, 4:].tolist())
    _, counts = np.unique(other[:, :4], axis=0, return_counts=True)
    assert len(counts) == 24 and chi_square(counts, 100) < 49.7


def test_the_draws_of_a_step_do_not_depend_on_those_after_it():
    steps = PIPELINES["all"](3)
    whole = draws_of(pipeline(steps, (8, 8, 3)), SIZES)
    for count in range(len(steps)):
        part = draws_of(pipeline(steps[:count], (8, 8, 3)), SIZES)
        for own, other in zip(part, whole, strict=False):
            assert own.keys() == other.keys()
            assert all(np.array_equal(own[name], other[name]) for name in own)


# ---------------------------------------------------------------- what is refused


CUTOUT, FLIP = {"type": "Cutout", "size": 2}, {"type": "RandomFlip"}
WRONG = [
    *(
        ([step], r"^transforms(\[0\]|\.)")
        for step in (
            {"type": "RandomCrop", "padding": 1, "size": 11},
            {"type": "Normalize", "mean": [0.5] * 3, "std": [0.5] * 2},
            {"type": "Normalize", "mean": [0.5], "std": [0.5]},
            {"type": "Cutot", "size": 3},
            *({"size": 3}, "RandomFlip", len),
        )
    ),
    ([CUTOUT, normalize(3)], r"transforms\[0\]: Cutout must come after Normalize"),
    ([FLIP, {"type": "Mixup"}], r"transforms\[1\]: Mixup must come after Normalize"),
    ([normalize(3), FLIP, normalize(3)], r"transforms\[2\]: "),
]


@pytest.mark.parametrize(("steps", "message"), WRONG)
def test_wrong_steps(steps, message):
    with pytest.raises(ConfigError, match=message):
        pipeline(steps, (8, 8, 3))


def test_a_crop_changes_what_the_next_step_gets():
    steps = [{"type": "RandomCrop", "padding": 0, "size": 4}, {"type": "RandomCrop", "size": 13}]
    with pytest.raises(ConfigError, match=r"RandomCrop\.size: 13"):
        pipeline(steps, (8, 8, 3))
    steps = [steps[0], normalize(3), {"type": "Cutout", "size": 3}]
    made, twin, _, _, draws = both(steps, (8, 8, 3), 200)
    assert made["inputs"].shape[2:] == (4, 4)
    assert_same(made, twin, 1e-6)
    assert max(draws[2]["y"].max(), draws[2]["x"].max()) == 3


def test_a_step_of_ones_own():
    """What a user registers needs ``apply``; steps may also come as objects."""

    @BATCH_TRANSFORMS.register_module(name="Inverted", force=True)
    class Inverted(BatchTransform):
        def apply(self, images, labels, draws):
            return 255 - images, labels

    try:
        images, labels = batch(9, (4, 4, 3))
        pipe = pipeline([{"type": "Inverted"}, Normalize([0.0] * 3, [1.0] * 3)], (4, 4, 3))
        made = pipe.apply(torch.from_numpy(images), torch.from_numpy(labels), [{}, {}])
        assert np.allclose(made["inputs"].numpy(), (255 - images.transpose(0, 3, 1, 2)) / 255)
    finally:
        BATCH_TRANSFORMS.module_dict.pop("Inverted")
