"""The renderer: pure, labeled with known ids, and different along each of its axes."""

import numpy as np
import pytest

from fedseg.data_prep.streets import (
    TO_CITYSCAPES,
    TO_IDDA,
    TOWNS,
    VIEWPOINTS,
    WEATHERS,
    render,
    render_scene,
)

SMALL = (232, 128)

# Raw id -> train id of IDDA, 255 where ignored.
TRAIN_ID = (255, 2, 4, 255, 11, 5, 0, 0, 1, 8, 13, 3, 7, 6, 255, 255, 15, 14, 12, 9, 10)
CITYSCAPES_IDS = (7, 8, 11, 12, 13, 17, *range(19, 29), 31, 32, 33)


@pytest.fixture(scope="module")
def sample():
    """One scene of every town in every weather, viewpoints in turn."""
    return {
        (town, weather): render_scene(40 + town, town, weather, "ABJMV"[town % 5], SMALL)
        for town in TOWNS
        for weather in WEATHERS
    }


def test_same_arguments_give_the_same_bytes_whatever_was_drawn_before():
    first = render_scene(7, 3, "HRN", "J", SMALL)
    render_scene(8, 1, "CS", "B", SMALL)
    second = render_scene(7, 3, "HRN", "J", SMALL)
    assert np.array_equal(first[0], second[0])
    assert np.array_equal(first[1], second[1])


def test_another_seed_gives_another_street():
    first, second = render_scene(1, 2, "CN", "A", SMALL), render_scene(2, 2, "CN", "A", SMALL)
    assert (first[1] != second[1]).mean() > 0.05
    assert not np.array_equal(first[0], second[0])


def test_types_and_known_ids(sample):
    for image, label in sample.values():
        assert image.shape == (128, 232, 3) and image.dtype == np.uint8
        assert label.shape == (128, 232) and label.dtype == np.uint8
        assert label.max() <= 20


def test_every_class_occurs_and_road_building_sky_are_frequent(sample):
    counts = np.zeros(256)
    for _, label in sample.values():
        counts += np.bincount(np.take(TRAIN_ID, label).ravel(), minlength=256)
    share = counts / counts.sum()
    assert (share[:16] > 0).all()
    assert share[0] > 0.15 and share[2] > 0.05 and share[10] > 0.05
    assert share[255] < 0.12


def test_the_weathers_of_a_seed_show_the_same_street():
    clear, sunset, rain = (render_scene(5, 6, weather, "A", SMALL)[1] for weather in WEATHERS)
    assert np.array_equal(clear, sunset)
    assert np.array_equal(clear, rain)


def test_rain_is_darker_and_flatter_than_noon_and_sunset_is_warmer(sample):
    def statistics(weather):
        images = np.stack([image for (_, w), (image, _) in sample.items() if w == weather])
        gray = images.mean(axis=3)
        red_over_blue = images[..., 0].mean() / images[..., 2].mean()
        return gray.mean(), gray.std(axis=(1, 2)).mean(), red_over_blue

    noon, sunset, rain = (statistics(weather) for weather in WEATHERS)
    assert rain[0] < 0.85 * noon[0]
    assert rain[1] < 0.75 * noon[1]
    assert sunset[2] > 1.15 * noon[2]


def test_rain_hides_what_is_far_more_than_what_is_near():
    ratios = []
    for seed in range(4):
        clear, label = render_scene(seed, 1, "CN", "A", SMALL)
        rain, _ = render_scene(seed, 1, "HRN", "A", SMALL)
        built = label == 1
        horizon = np.zeros_like(built)
        horizon[48:64, 96:136] = True  # the end of the street
        far, near = built & horizon, built & ~horizon
        ratios.append((rain[far].std() / clear[far].std()) / (rain[near].std() / clear[near].std()))
    assert np.mean(ratios) < 1


def test_other_sizes():
    towns, views = list(TOWNS), list(VIEWPOINTS)
    for size, count in (((160, 96), 15), ((201, 77), 15), ((928, 512), 5)):
        for i in range(count):
            view = views[i if count == 5 else i // 3]
            image, label = render_scene(i, towns[i % 7], WEATHERS[i % 3], view, size)
            assert image.shape == (size[1], size[0], 3)
            assert label.shape == (size[1], size[0])


def test_viewpoints_raise_the_horizon_and_carry_their_own_hood():
    labels = {view: render_scene(3, 4, "CN", view, SMALL)[1] for view in VIEWPOINTS}
    hood = {view: (label[-30:] == 0).mean() for view, label in labels.items()}
    assert hood["M"] > hood["A"] > hood["B"] > 0
    sky = {view: (label == 20).mean() for view, label in labels.items()}
    assert sky["B"] < sky["M"]


def test_the_country_is_green():
    def share(town, raw_ids):
        labels = [render_scene(seed, town, "CN", "A", (160, 96))[1] for seed in range(6)]
        return np.isin(labels, raw_ids).mean()

    assert share(7, [9, 19]) > 0.2
    assert share(7, [1]) < 0.3 * share(2, [1])


def test_a_class_has_no_single_color(sample):
    for raw in (1, 7, 9, 10):
        means = [
            image[label == raw].mean(axis=0)
            for (_, weather), (image, label) in sample.items()
            if weather == "CN" and (label == raw).sum() > 40
        ]
        assert np.std(means, axis=0).max() > 8


def test_variants_change_a_town():
    plain = render(3, 2, "CN", "A", SMALL)
    other = render(3, 2, "CN", "A", SMALL, variant=5)
    assert not np.array_equal(plain[0], other[0])


def test_label_tables():
    internal = set()
    for seed in range(12):
        internal |= set(np.unique(render(seed, 1 + seed % 7, "CN", "A", SMALL)[1]).tolist())
    assert set(TO_IDDA[sorted(internal)].tolist()) <= set(range(21))
    known = set(CITYSCAPES_IDS) | {0, 1, 4, 5, 14}
    assert set(TO_CITYSCAPES[sorted(internal)].tolist()) <= known
    assert set(CITYSCAPES_IDS) - {27, 28, 31} <= set(TO_CITYSCAPES.tolist())


def test_arguments_out_of_range_are_refused():
    for arguments, message in (
        ((0, 8, "CN", "A"), "town 8"),
        ((0, 1, "SNOW", "A"), "weather .SNOW"),
        ((0, 1, "CN", "Z"), "viewpoint .Z"),
        ((0, 1, "CN", "A", (16, 16)), r"size \(16, 16\)"),
    ):
        with pytest.raises(ValueError, match=message):
            render_scene(*arguments)
