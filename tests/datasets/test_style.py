"""LAB and CFSI style transfer, and the bank of styles."""

import pickle
from fractions import Fraction
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from fedseg.datasets import ListedDataset
from fedseg.datasets.arrays import is_rendered
from fedseg.datasets.idda import IDDADataset
from fedseg.datasets.style import CFSIStyle, LABStyle, StyleTransfer, build_style
from fedseg.errors import ConfigError
from fedseg.partition.split_files import Split, write_split

RNG = np.random.default_rng


@pytest.fixture
def images(tmp_path: Path, make_picture, save_image) -> dict[str, list[str]]:
    """Four images of each of three domains."""
    return {
        name: [str(save_image(tmp_path / name / f"{i}.png", make_picture(d + i))) for i in range(4)]
        for d, name in ((0, "day"), (10, "dusk"), (20, "rain"))
    }


def bound(style: StyleTransfer, images: dict[str, list[str]]) -> StyleTransfer:
    domains = [domain for domain, paths in images.items() for _ in paths]
    style.bind([path for paths in images.values() for path in paths], domains)
    return style


def lab_moments(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    lab = cv2.cvtColor(image, cv2.COLOR_RGB2LAB).reshape(-1, 3).astype(float)
    return lab.mean(0), lab.std(0)


def test_lab_moves_mean_and_std(make_picture) -> None:
    # Moderate colors: what leaves the RGB cube cannot keep its moments.
    source = make_picture(1) // 2 + 60
    target = make_picture(2) // 3 + 80
    style = LABStyle()
    result = style.transfer(source, style.extract(target), RNG(0))
    mean, std = lab_moments(result)
    to_mean, to_std = lab_moments(target)
    assert np.abs(mean - to_mean).max() < 1.0 and np.abs(std - to_std).max() < 1.0
    assert np.abs(mean - lab_moments(source)[0]).max() > 2.0


def test_lab_of_a_flat_image(make_picture) -> None:
    style = LABStyle()
    target = make_picture(3)
    result = style.transfer(np.full((8, 8, 3), 90, np.uint8), style.extract(target), RNG(0))
    assert (result == result[0, 0]).all()
    assert np.abs(lab_moments(result)[0] - lab_moments(target)[0]).max() < 2.0


def cfsi_by_whole_spectrum(
    source: np.ndarray, target: np.ndarray, window: float, mix: float
) -> np.ndarray:
    """CFSI as in the paper, with full spectra, in float64 and not yet clipped."""
    spectrum = np.fft.fftshift(np.fft.fft2(source.astype(float), axes=(0, 1)), axes=(0, 1))
    other = np.abs(np.fft.fftshift(np.fft.fft2(target.astype(float), axes=(0, 1)), axes=(0, 1)))
    height, width = source.shape[:2]
    h, w = (int(Fraction(str(window)) * side) for side in (height, width))
    rows = slice(height // 2 - h, height // 2 + h + 1)
    columns = slice(width // 2 - w, width // 2 + w + 1)
    amplitude, phase = np.abs(spectrum), np.angle(spectrum)
    amplitude[rows, columns] *= 1 - mix
    amplitude[rows, columns] += mix * other[rows, columns]
    mixed = np.fft.ifftshift(amplitude * np.exp(1j * phase), axes=(0, 1))
    return np.fft.ifft2(mixed, axes=(0, 1)).real


def test_cfsi_equals_the_whole_spectrum(make_picture):
    for (height, width), window in product(((48, 64), (45, 75), (90, 100)), (0.05, 0.29)):
        source, target = make_picture(4, height, width), make_picture(5, height, width)
        noise = RNG(0).integers(-15, 16, source.shape)
        source = np.clip(source + noise, 0, 255).astype(np.uint8)
        style = CFSIStyle(window=window)
        result = style.transfer(source, style.extract(target), RNG(7))
        expected = cfsi_by_whole_spectrum(source, target, window, mix=RNG(7).uniform())
        difference = np.abs(result - np.clip(np.rint(expected), 0, 255))
        # float32: a value next to a half may round the other way.
        assert difference.max() <= 1 and (difference > 0).mean() < 0.01
        assert (result != source).mean() > 0.5


def test_cfsi_clips_instead_of_wrapping(make_picture) -> None:
    for invert in (False, True):
        source = make_picture(1, 40, 60) // 8
        source[10:20, 10:30] = 250
        target = 255 - source
        if invert:
            source, target = target, source // 4
        style = CFSIStyle(window=0.2)
        result = style.transfer(source, style.extract(target), RNG(3))
        exact = cfsi_by_whole_spectrum(source, target, 0.2, mix=RNG(3).uniform())
        beyond = exact < -1 if invert else exact > 256
        assert beyond.sum() > 100
        assert (result[beyond] == (0 if invert else 255)).all()


def test_cfsi_between_sizes(make_picture) -> None:
    """Another resolution of the same scene is nearly the same style."""
    source = make_picture(1, 40, 60)
    large = make_picture(2, 80, 120)
    small = cv2.resize(large, (60, 40), interpolation=cv2.INTER_AREA)
    style = CFSIStyle()
    a = style.transfer(source, style.extract(small), RNG(0))
    b = style.transfer(source, style.extract(large), RNG(0))
    assert np.abs(a.astype(int) - b).mean() < 2 < np.abs(a.astype(int) - source).mean()


def test_threads_do_not_change_bits(make_picture) -> None:
    for style in (LABStyle(), CFSIStyle()):
        source, target = make_picture(1, 360, 480), make_picture(2, 360, 480)
        threads = cv2.getNumThreads()
        results = []
        try:
            for count in (0, 2):
                cv2.setNumThreads(count)
                results.append(style.transfer(source, style.extract(target), RNG(0)))
        finally:
            cv2.setNumThreads(threads)
        assert (results[0] == results[1]).all()


def test_style_comes_from_every_other_domain(images, make_picture, monkeypatch) -> None:
    style = bound(LABStyle(p=1.0), images)
    drawn: list[str] = []
    entry = style.entry
    monkeypatch.setattr(style, "entry", lambda path: drawn.append(path) or entry(path))
    for seed in range(200):
        style(make_picture(0), "dusk", seed)
    assert set(drawn) == set(images["day"] + images["rain"])
    drawn.clear()
    style(make_picture(0), "a domain that the bank does not have", 0)
    assert len(drawn) == 1


def test_seed_draws_whether_and_which(images, make_picture) -> None:
    style, twin = bound(LABStyle(p=0.5), images), bound(LABStyle(p=0.5), images)
    image = make_picture(0)
    results = [style(image, "day", seed) for seed in range(200)]
    changed = [not np.array_equal(result, image) for result in results]
    assert 75 <= sum(changed) <= 125
    assert len({result.tobytes() for result in results}) == 1 + 8  # itself, 8 foreign styles
    for seed in reversed(range(200)):
        assert (twin(image, "day", seed) == results[seed]).all()
    assert all((bound(LABStyle(p=0.0), images)(image, "day", s) == image).all() for s in range(9))


def test_bank_is_small_and_does_not_depend_on_the_order(images) -> None:
    style = bound(CFSIStyle(images_per_domain=2), images)
    other = bound(CFSIStyle(images_per_domain=2), {d: images[d][::-1] for d in reversed(images)})
    assert style.bank == other.bank
    assert {domain: len(paths) for domain, paths in style.bank.items()} == dict.fromkeys(images, 2)
    assert all(set(style.bank[domain]) <= set(images[domain]) for domain in images)
    seeds = {str(bound(CFSIStyle(images_per_domain=2, seed=s), images).bank) for s in range(6)}
    assert len(seeds) > 1
    everything = bound(CFSIStyle(images_per_domain=None), images)
    assert {d: sorted(paths) for d, paths in everything.bank.items()} == images
    copy = pickle.loads(pickle.dumps(style))
    path = style.bank["day"][0]
    assert (copy.entry(path) == style.entry(path)).all()
    assert style.entry(path) is style.entry(path)


def test_mistakes_are_named() -> None:
    for kind, message in (("ResizeInput", r"\.type: ResizeInput"), ("LABStyle", ".*'day'")):
        config = dict(type=kind, **({"size": (2, 2)} if kind == "ResizeInput" else {}))
        with pytest.raises(ConfigError, match=rf"dataset\.style{message}"):
            build_style(config, ["a.png", "b.png"], ["day", "day"])  # one domain is not enough


def test_what_an_image_excludes(make_picture, tmp_path, save_image) -> None:
    """IDDA's town and weather from any viewpoint, in FedDrive; nothing on Cityscapes."""

    def condition_of(domain: str) -> str:
        return IDDADataset.condition_of(None, domain)

    domains = ("T01_CN_A", "T01_CN_B", "T01_CS_A", "T02_CN_A")
    files = enumerate(tmp_path / domain / "0.png" for domain in domains)
    paths = [str(save_image(path, make_picture(n))) for n, path in files]
    for exclude, expected in (("domain", domains[1:]), ("condition", domains[2:]), (None, domains)):
        config = dict(type="LABStyle", p=1.0, images_per_domain=None, exclude=exclude)
        style = build_style(config, paths, domains, condition_of)
        drawn: list[str] = []
        style.entry = lambda path, drawn=drawn: drawn.append(path) or (np.zeros(3), np.ones(3))
        for seed in range(600):
            style(make_picture(0), "T01_CN_A", seed)
        names = [Path(path).parent.name for path in drawn]
        assert set(names) == set(expected)
        counts = [names.count(name) for name in expected]
        assert min(counts) > 600 / len(expected) * 0.7  # every image is as likely
    with pytest.raises(ConfigError, match=r"style\.exclude.*'T01_CN'"):
        config = dict(type="LABStyle", exclude="condition")
        build_style(config, paths[:2], domains[:2], condition_of)


def test_the_released_half_and_the_released_cast(images, make_picture) -> None:
    style = bound(LABStyle(p=0.0, fixed_half=True), images)
    image = make_picture(0)
    for seed in range(5):
        assert (style(image, "day", seed, position=3) == image).all()
        assert (style(image, "day", seed, position=2) != image).any()
    target, bright = make_picture(1), np.clip(make_picture(0).astype(int) + 90, 0, 255).astype("u1")
    style = CFSIStyle(window=0.2, clip=False)
    made = style.transfer(bright, style.extract(target), RNG(7))
    exact = cfsi_by_whole_spectrum(bright, target, 0.2, mix=np.float32(RNG(7).uniform()))
    values = np.abs(exact)
    assert (values > 256).any()
    gap = np.abs(made.astype(int) - values.astype(np.int64) % 256)
    assert (np.minimum(gap, 256 - gap) > 1).mean() == 0 and (gap > 0).mean() < 0.01


def test_another_data_set_lends_its_styles(images, tmp_path, make_picture, save_image) -> None:
    """As LADD's clients do to the server's images, which are in none of their domains."""
    for path in images["rain"]:
        save_image(Path(path).with_suffix(".map.png"), np.zeros((8, 8), np.uint8))
    pairs = [(f"rain/{i}.png", f"rain/{i}.map.png") for i in range(4)]
    write_split(tmp_path / "split", Split({"a": pairs}))
    source = {"type": "ListedDataset", "data_root": str(tmp_path), "split": "split"}
    two = {"classes": ["road", "tree"]}
    two |= {"image_path": "rain/{name}.png", "label_path": "rain/{name}.map.png"}
    lending = {"type": "LABStyle", "p": 1.0, "source": source | two}
    style = build_style(lending, images["day"], ["x"] * 4)
    assert sorted(style.bank["all"]) == sorted(images["rain"])
    borrowing = SimpleNamespace(style=style)
    assert not is_rendered(borrowing)
    (tmp_path / "dataset.json").write_text('{"synthetic": true}')
    assert is_rendered(borrowing)
    image = make_picture(1)
    means = [lab_moments(make_picture(20 + number))[0] for number in range(4)]
    for seed in range(8):
        mean = lab_moments(style(image, "x", seed))[0]
        assert min(np.abs(mean - other).max() for other in means) < 3
    source["type"] = "ImageFolderDataset"
    with pytest.raises(ConfigError, match=r"style\.source\.type: .* is not a SegmentationDataset"):
        ListedDataset(str(tmp_path), "split", style={"type": "LABStyle", "source": source}, **two)
