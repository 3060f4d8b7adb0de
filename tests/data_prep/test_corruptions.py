"""The 19 corruptions against independent computations, their order of damage, and determinism."""

import colorsys
from io import BytesIO
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from fedseg.data_prep import corruption_parts
from fedseg.data_prep.corruption_parts import Draws, plasma
from fedseg.data_prep.corruptions import corrupt
from fedseg.data_prep.synthetic_shapes import render_images
from fedseg.datasets.corrupted import CORRUPTIONS, SEVERITIES

NOT_RANDOM = {
    *("defocus_blur", "zoom_blur", "brightness", "contrast", "pixelate", "jpeg_compression"),
    *("gaussian_blur", "saturate"),
}
# In the published parameters the others have a milder blur after a stronger shuffle (glass), a
# weaker affine map with a stronger warp (elastic), less weight on the image (frost), other drops
# (spatter), or turn from washing out to strengthening colors (saturate).
GROWING = sorted(
    set(CORRUPTIONS) - {"glass_blur", "elastic_transform", "frost", "spatter", "saturate"}
)


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return render_images(range(40), "test")


def by_severity(*values):
    """(severity, its published value) of all severities."""
    return zip(SEVERITIES, values, strict=True)


def flat(value: int, count: int = 20) -> np.ndarray:
    return np.full((count, 32, 32, 3), value, np.uint8)


def dot() -> np.ndarray:
    """Black with one white pixel in the middle."""
    image = flat(0, 1)
    image[0, 16, 16] = 255
    return image


def test_an_image_depends_on_its_index_alone(images):
    for name in CORRUPTIONS:
        before = images.copy()
        for severity in (1, 3, 5):
            together = corrupt(images[:12], name, severity)
            assert together.dtype == np.uint8 and together.shape == (12, 32, 32, 3)
            assert together.flags.c_contiguous and not np.shares_memory(together, images)
            for index in (0, 7, 11):
                alone = corrupt(images[index : index + 1], name, severity, [index])
                assert np.array_equal(alone[0], together[index])
            backwards = corrupt(images[11::-1], name, severity, range(11, -1, -1))
            assert np.array_equal(backwards[::-1], together)
            other_seed = corrupt(images[:12], name, severity, seed=1)
            assert np.array_equal(other_seed, together) == (name in NOT_RANDOM)
            elsewhere = corrupt(images[:12], name, severity, range(50, 62))
            assert np.array_equal(elsewhere, together) == (name in NOT_RANDOM)
        assert np.array_equal(before, images)


def test_damage_grows_with_severity(images):
    for name in GROWING:
        damage = [
            np.mean((corrupt(images, name, severity).astype(float) - images) ** 2)
            for severity in SEVERITIES
        ]
        assert damage[0] > 0.1
        assert damage == sorted(damage) and len(set(damage)) == 5


def test_severities_differ_and_leave_the_image_recognizable(images):
    for name in CORRUPTIONS:
        results = [corrupt(images, name, severity) for severity in SEVERITIES]
        for first, second in pairwise(results):
            assert not np.array_equal(first, second)
        # Its own image is the most like a corrupted one: by correlation of small gray versions.
        small = [gray_thumbnails(part) for part in (images, results[4])]
        assert np.mean((small[1] @ small[0].T).argmax(1) == np.arange(len(images))) > 0.5


def gray_thumbnails(images: np.ndarray) -> np.ndarray:
    blocks = images.mean(3).reshape(-1, 8, 4, 8, 4).mean((2, 4)).reshape(len(images), -1)
    blocks -= blocks.mean(1, keepdims=True)
    return blocks / np.linalg.norm(blocks, axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("name", "published", "values", "deviation"),
    [
        ("gaussian_noise", (0.04, 0.06, 0.08, 0.09, 0.10), (128,), lambda p, v: 255 * p),
        ("shot_noise", (500, 250, 100, 75, 50), (40, 150), lambda p, v: 255 * (v / 255 / p) ** 0.5),
        ("speckle_noise", (0.06, 0.1, 0.12, 0.16, 0.2), (50, 120), lambda p, v: v * p),
    ],
)
def test_noise_has_the_published_deviation(name, published, values, deviation):
    for severity, parameter in by_severity(*published):
        for value in values:
            noisy = corrupt(flat(value), name, severity).astype(float)
            within = 0.02 if name == "gaussian_noise" else 0.03
            assert noisy.std() == pytest.approx(deviation(parameter, value), rel=within)
            if name == "gaussian_noise":
                noise = noisy - 128
                assert noise.mean() == pytest.approx(-0.5, abs=0.3)  # fractions are cut off
                assert abs(np.corrcoef(noise[..., 0].ravel(), noise[..., 1].ravel())[0, 1]) < 0.03
            elif name == "shot_noise":
                assert noisy.mean() == pytest.approx(value, abs=1)
        assert name == "gaussian_noise" or not corrupt(flat(0, 1), name, severity).any()


def test_impulse_noise_sets_a_share_of_all_values():
    for severity, share in by_severity(0.01, 0.02, 0.03, 0.05, 0.07):
        noisy = corrupt(flat(128), "impulse_noise", severity)
        assert set(np.unique(noisy)) == {0, 128, 255}
        assert np.mean(noisy == 0) == pytest.approx(share / 2, rel=0.15)
        assert np.mean(noisy == 255) == pytest.approx(share / 2, rel=0.15)
        hit = noisy != 128  # values are hit, not whole pixels
        assert np.mean(hit.any(3)) == pytest.approx(1 - (1 - share) ** 3, rel=0.1)


def by_pixel(images: np.ndarray, change) -> np.ndarray:
    """``change`` of every pixel's hue, saturation and value, by the standard library."""
    pixels = images.reshape(-1, 3) / 255
    done = [colorsys.hsv_to_rgb(*change(*colorsys.rgb_to_hsv(*pixel))) for pixel in pixels]
    return (np.array(done) * 255).reshape(images.shape)


@pytest.mark.parametrize(
    ("name", "published", "change"),
    [
        ("brightness", (0.05, 0.1, 0.15, 0.2, 0.3), lambda h, s, v, p: (h, s, min(v + p, 1))),
        (
            "saturate",
            ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
            lambda h, s, v, p: (h, min(s * p[0] + p[1], 1), v),
        ),
    ],
)
def test_value_and_saturation_are_changed(images, name, published, change):
    for severity, parameter in by_severity(*published):
        expected = by_pixel(images[:2], lambda *hsv, p=parameter: change(*hsv, p))
        assert np.abs(corrupt(images[:2], name, severity) - (expected - 0.5)).max() <= 0.51


def test_contrast_shrinks_towards_each_channels_mean(images):
    for severity, gain in by_severity(0.75, 0.5, 0.4, 0.3, 0.15):
        mean = images.reshape(len(images), -1, 3).astype(float).mean(1)[:, None, None]
        expected = np.clip(mean + gain * (images - mean), 0, 255)
        found = corrupt(images, "contrast", severity)
        assert np.abs(found - (expected - 0.5)).max() <= 0.51


def test_gaussian_blur_spreads_a_dot_as_the_normal_density():
    for severity, sigma in by_severity(0.4, 0.6, 0.7, 0.8, 1):
        reach = int(4 * sigma + 0.5)
        line = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma**2))
        line /= line.sum()
        expected = np.zeros((32, 32))
        around = slice(16 - reach, 17 + reach)
        expected[around, around] = 255 * np.outer(line, line)
        found = corrupt(dot(), "gaussian_blur", severity)[0]
        assert np.abs(found - np.floor(expected + 1e-3)[..., None]).max() <= 1


PLUS = [(0, 0), (0, 1), (1, 0), (0, -1), (-1, 0)]
SQUARE = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]


@pytest.mark.parametrize(("severity", "shifts", "bound"), [(4, PLUS, 0.6), (5, SQUARE, 0.51)])
def test_strong_defocus_is_the_mean_of_neighbors(images, severity, shifts, bound):
    inside = [images[:, 1 + dy : 31 + dy, 1 + dx : 31 + dx].astype(float) for dy, dx in shifts]
    found = corrupt(images, "defocus_blur", severity)[:, 1:31, 1:31]
    assert np.abs(found - (np.mean(inside, axis=0) - 0.5)).max() <= bound


def test_mild_defocus_is_a_softened_dot():
    for severity, sigma in ((1, 0.4), (2, 0.5), (3, 0.6)):
        line = np.exp(-(np.array([-1, 0, 1]) ** 2) / (2 * sigma**2))
        line /= line.sum()
        found = corrupt(dot(), "defocus_blur", severity)[0]
        assert np.abs(found[15:18, 15:18, 0] - 255 * np.outer(line, line)).max() <= 1
        assert found.sum() == found[15:18, 15:18].sum()


def test_zoom_blur_is_the_mean_of_enlargements(images):
    for severity, count in by_severity(7, 12, 16, 21, 26):
        ndimage = pytest.importorskip("scipy.ndimage")
        total = images[:4].astype(float)
        for factor in np.arange(1, 0.995 + 0.01 * count, 0.01):
            taken = int(np.ceil(32 / factor - 1e-9))
            top = (32 - taken) // 2
            for number, image in enumerate(images[:4]):
                middle = image[top : top + taken, top : top + taken].astype(float)
                large = ndimage.zoom(middle, (factor, factor, 1), order=1)
                trim = (len(large) - 32) // 2
                total[number] += large[trim : trim + 32, trim : trim + 32]
        expected = total / (count + 1)
        assert np.abs(corrupt(images[:4], "zoom_blur", severity) - (expected - 0.5)).max() <= 0.51


def test_motion_blur_draws_a_dot_out_to_one_side():
    for severity, sigma in zip(SEVERITIES, (1, 1.5, 2, 2, 2.5), strict=True):
        streaks = corrupt(np.repeat(dot(), 30, 0), "motion_blur", severity)[..., 0].astype(float)
        weights = np.exp(-(np.arange(19) ** 2) / (2 * sigma**2))
        assert np.allclose(streaks[:, 16, 16], 255 / weights.sum(), atol=1)
        assert not streaks[:, :, 17:].any()
        assert np.allclose(streaks.sum((1, 2)), 255, atol=6)  # nothing gets lost
        ys, xs = np.mgrid[:32, :32]
        right = (streaks * (16 - xs)).sum((1, 2)) / streaks.sum((1, 2))
        down = (streaks * (16 - ys)).sum((1, 2)) / streaks.sum((1, 2))
        angles = np.degrees(np.arctan2(down, right))
        assert (np.abs(angles) < 55).all() and angles.min() < -15 and angles.max() > 15
        mean_length = (weights * np.arange(19)).sum() / weights.sum()
        assert np.hypot(right, down).mean() == pytest.approx(mean_length, rel=0.15)


def test_glass_blur_at_severity_1_takes_values_from_above_and_left(images):
    # sigma 0.05 blurs nothing, so every pixel is one of its neighbors
    found = corrupt(images, "glass_blur", 1)
    choices = np.stack(
        [images[:, 2 - dy : 32 - dy, 2 - dx : 32 - dx] for dy in (0, 1) for dx in (0, 1)]
    )
    same = (choices == found[None, :, 2:, 2:]).all(-1)
    assert same.any(0).all()
    assert np.array_equal(found[:, :2], images[:, :2])
    assert np.array_equal(found[:, :, :2], images[:, :, :2])


def test_snow_whitens_and_frost_and_fog_keep_their_bounds(images):
    assert corrupt(images, "snow", 5).mean() > corrupt(images, "snow", 1).mean() > images.mean()
    for severity, (weight, ice) in enumerate(
        [(1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)], start=1
    ):
        on_black = corrupt(flat(0), "frost", severity).astype(float)
        assert on_black.mean() == pytest.approx(ice * corruption_parts.panes().mean(), rel=0.15)
        darkest = np.clip(
            weight * images.astype(float) + ice * corruption_parts.panes().min(), 0, 255
        )
        assert (corrupt(images, "frost", severity) >= darkest - 1).all()
    for severity, density in enumerate((0.2, 0.5, 0.75, 1, 1.5), start=1):
        foggy = corrupt(flat(100), "fog", severity)
        unit = 100 / 255
        assert foggy.min(axis=(1, 2, 3)).tolist() == [int(100 * unit / (unit + density))] * 20
        assert (foggy.max(axis=(1, 2, 3)) >= 99).all() and foggy.max() <= 100


def test_plasma_fills_the_range_and_is_rougher_with_less_decay():
    clouds = {decay: plasma(Draws(0, "fog", 1, range(20)), decay) for decay in (3, 2.5, 2, 1.75)}
    for heights in clouds.values():
        assert heights.shape == (20, 32, 32)
        assert (heights.min((1, 2)) == 0).all() and (heights.max((1, 2)) == 1).all()
    steps = [np.abs(np.diff(c, axis=1)).mean() for c in clouds.values()]
    assert steps == sorted(steps)


def test_frosted_panes():
    panes = corruption_parts.panes()
    assert (
        panes.shape == (5, corruption_parts.PANE, corruption_parts.PANE, 3)
        and panes.dtype == np.uint8
    )
    assert (panes.std((1, 2)) > 10).all()  # ice and glass
    assert (panes[..., 2].mean((1, 2)) > panes[..., 0].mean((1, 2))).all()  # bluish
    assert len({pane.tobytes() for pane in panes}) == 5
    assert not np.array_equal(corruption_parts.panes(1), panes)


@pytest.mark.parametrize("seed", [0, 1])
def test_frost_moves_images_as_far_as_the_published_one(seed):
    """From pixels distributed as CIFAR-10's; the original panes average 131 to 207."""
    means = corruption_parts.panes(seed).mean((1, 2, 3))
    assert means[[0, -1]] == pytest.approx([131, 207], abs=1) and (np.diff(means) > 10).all()
    levels = np.random.default_rng(0).normal(121.5, 64, (800, 32, 32, 3))
    clean = levels.clip(0, 255).astype(np.uint8)
    for severity, published in by_severity(30.5, 45.9, 50.5, 45.9, 44.0):
        moved = corrupt(clean, "frost", severity, seed=seed).astype(int) - clean
        assert np.abs(moved).mean() == pytest.approx(published, rel=0.05), severity


def test_elastic_transform_moves_pixels_and_keeps_colors(images):
    for severity in SEVERITIES:
        assert (
            np.abs(corrupt(flat(90, 3), "elastic_transform", severity).astype(int) - 90).max() <= 1
        )
        moved = corrupt(images, "elastic_transform", severity)
        assert np.allclose(moved.mean((1, 2)), images.mean((1, 2)), atol=25)


def test_spatter_is_light_water_then_brown_mud(images):
    for severity in (1, 2, 3):
        wet = corrupt(images, "spatter", severity)
        assert (wet >= images.astype(int)).all()
        assert (wet != images).any((1, 2, 3)).all()
    for severity in (4, 5):
        muddy = corrupt(flat(230), "spatter", severity).reshape(-1, 3)
        splashes = muddy[(muddy != 230).any(1)].astype(float)
        # between white and the mud's color, at least four fifths mud
        assert 0.005 < len(splashes) / len(muddy) < 0.3
        nearest = 230 + 0.8 * (np.array([63, 42, 20]) - 230)
        assert (splashes <= nearest + 1).all() and (splashes >= [62, 41, 19]).all()


def test_pixelate_has_as_few_rows_as_the_small_image(images):
    for severity, side in by_severity(30, 28, 27, 24, 20):
        found = corrupt(images, "pixelate", severity)
        for image in found[:5]:
            assert len(np.unique(image, axis=0)) <= side
            assert len(np.unique(image, axis=1).transpose(1, 0, 2)) <= side
        assert np.array_equal(corrupt(flat(77, 2), "pixelate", severity), flat(77, 2))


def test_jpeg_is_what_another_library_makes(images):
    for severity, quality in by_severity(80, 65, 58, 50, 40):
        found = corrupt(images[:8], "jpeg_compression", severity)
        for image, ours in zip(images, found, strict=False):
            file = BytesIO()
            Image.fromarray(image).save(file, "JPEG", quality=quality)
            theirs = np.asarray(Image.open(file)).astype(int)
            assert np.abs(theirs - ours).max() <= 2
