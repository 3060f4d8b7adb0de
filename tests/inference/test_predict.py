"""Predictions of images: equal to what evaluation scores, of any size and format, and refused."""

import csv
import json
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from untrained import CHECKPOINT, write_run

import fedseg
from fedseg.api import Run
from fedseg.commands import main as command
from fedseg.data_prep.synthetic_shapes import write_shapes
from fedseg.datasets.images import read_image
from fedseg.errors import ConfigError, DataError
from fedseg.evaluation import IoUMetric
from fedseg.inference.files import find_images, write_map
from fedseg.inference.predictor import opened
from fedseg.registry import MODELS
from fedseg.report.pictures import Example, draw_example
from fedseg.report.segmentation import OPACITY, Panel, paint, read_classes
from fedseg.runner.checkpoint import load_checkpoint, save_checkpoint
from fedseg.runner.recorded import newest_checkpoint

TRUST = {"trust": ["small_network"]}
SIZE = 72, 128


@pytest.fixture(scope="module")
def shapes_run(tmp_path_factory) -> Path:
    """A classification of one round, at rest."""
    folder = tmp_path_factory.mktemp("shapes")
    write_shapes(folder / "data", train=600, test=100)
    options = {"train_cfg.max_rounds": 1, "train_cfg.val_interval": 1}
    roots = ("train_dataloader", "val_dataloader.test", "test_dataloader.test")
    options |= {f"{root}.dataset.data_root": str(folder / "data") for root in roots}
    return fedseg.train("demo_shapes", options=options, work_dir=folder / "run").folder


def photographs(folder: Path) -> list[Path]:
    """One picture in many forms, and in other sizes."""
    rng = np.random.default_rng(0)
    image = np.kron(rng.integers(0, 255, (9, 16, 3), np.uint8), np.ones((8, 8, 1), np.uint8))
    picture = Image.fromarray(image)
    exif = Image.Exif()
    exif[274] = 6  # turned by a quarter
    folder.mkdir(parents=True)
    picture.rotate(90, expand=True).save(folder / "turned.png", exif=exif)
    picture.save(folder / "plain.PNG")
    picture.convert("RGBA").save(folder / "alpha.png")
    picture.convert("L").save(folder / "gray.png")
    picture.resize((51, 33)).save(folder / "small.jpg")
    return sorted(folder.iterdir())


def test_predictions_of_test_images_are_what_evaluation_scores(small_run, small_config, tmp_path):
    results = fedseg.read_run(small_run).results
    done = fedseg.predict(small_run, out=tmp_path, **TRUST)
    truth = small_config.parent / "data" / "IDDAsmall"
    ids = np.array((255, 2, 4, 255, 11, 5, 0, 0, 1, 8, 13, 3, 7, 6, 255, 255, 15, 14, 12, 9, 10))
    names = {path.stem: path for path in truth.rglob("Semantic/*.png")}
    for view in ("unseen", "seen", "seen_by_domain"):
        metric = IoUMetric(16)
        for path in sorted((tmp_path / "labels" / view).iterdir()):
            label = ids[cv2.imread(str(names[path.stem.split("_", 1)[1]]), -1)]
            label = cv2.resize(label.astype(np.uint8), SIZE[::-1], interpolation=6)  # exact
            given = np.array(Image.open(path))
            assert given.shape == SIZE and path in done.files
            metric.process([0], {"data_samples": torch.from_numpy(label)}, torch.from_numpy(given))
        assert metric.evaluate()["mIoU"] == pytest.approx(results.final[view]["mIoU"], abs=1e-9)


def test_photographs_of_any_kind(small_run, tmp_path, monkeypatch, capsys):
    photos = photographs(tmp_path / "photos")
    out = tmp_path / "out"
    words = ["predict", str(small_run), str(tmp_path / "photos"), str(photos[0]), "--out", str(out)]
    monkeypatch.setattr(
        "sys.argv", ["fedseg", *words, "--domain", "T01_CN_A", "--trust", "small_network"]
    )
    command.main()
    assert "T01_CN_A" in capsys.readouterr().err
    maps = {path.stem: np.array(Image.open(path)) for path in (out / "labels").iterdir()}
    names = ("turned", "plain", "alpha", "alpha_2")
    assert len(maps) == len(photos) + 1
    assert all(maps[name].shape == (72, 128) for name in names) and maps["small"].shape == (33, 51)
    assert all((maps[name] == maps["plain"]).all() for name in names)
    label = Image.open(out / "labels" / "plain.png")
    assert label.mode == "P" and label.getpalette()[:3] == [128, 64, 128]  # road
    assert Image.open(out / "pictures" / "small.png").width > 1000  # a figure


def test_the_statistics_are_those_that_are_named(small_run, tmp_path):
    run = fedseg.read_run(small_run)
    image = np.random.default_rng(1).integers(0, 255, (24, 40, 3), np.uint8)
    given = {"images": [image, image // 3], "batch_size": 1, **TRUST}
    maps = [run.predict(domain=domain, **given) for domain in ("T01_CN_A", "T02_CS_A")]
    maps.append(run.predict(**given))
    assert len({b"".join(m.tobytes() for m in pair) for pair in maps}) == 3
    options = {"trust": TRUST["trust"][0], "options": {"device": "cpu"}}
    alone = run.predict((one for one in [image]), domain="T01_CN_A", **options)
    assert (alone[0] == maps[0][0]).all()
    with pytest.raises(ConfigError, match=r"domain: 'north'.*T01_CN_A"):
        run.predict([image], domain="north", **TRUST)
    for single in ("street.jpg", image):
        with pytest.raises(ConfigError, match=r"^images: must be a list"):
            run.predict(single, **TRUST)
    with pytest.raises(DataError, match=r"absent\.png"):
        run.predict(np.array(["absent.png"] * 3), domain="T01_CN_A", **TRUST)
    with pytest.raises(ConfigError, match="batch_size: must be greater than 0"):
        run.predict([image], batch_size=0, **TRUST)


@pytest.fixture(scope="module")
def silo_run(tmp_path_factory) -> Path:
    """BiSeNetV2, which pools an image to one value a channel, with SiloBN; two clients trained."""
    folder = tmp_path_factory.mktemp("silo")
    write_run(folder, "idda_rainy", ["silobn"], {"type": "ResizeInput", "size": (64, 64)})
    payload = load_checkpoint(folder / CHECKPOINT)
    weights = payload["state_dict"].items()
    count = sum(tensor.numel() for name, tensor in weights if ".running_" in name)
    payload["client_sizes"] = {"a": 1, "b": 3}
    payload["client_statistics"] = {
        client: {"personal.buffers": torch.rand(count) + 0.5} for client in ("a", "b")
    }
    save_checkpoint(folder / CHECKPOINT, payload)
    return folder


@pytest.fixture
def photos_of_three_sizes(tmp_path) -> Path:
    rng = np.random.default_rng(2)
    (tmp_path / "photos").mkdir()
    for height, width in ((40, 60), (60, 40), (50, 50)):
        pixels = rng.integers(0, 255, (height, width, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{height}.png")
    return tmp_path / "photos"


def test_one_photograph_and_a_folder_of_other_sizes(silo_run, photos_of_three_sizes, run_tool):
    photos, out = photos_of_three_sizes, photos_of_three_sizes.parent / "out"
    for path in (photos / "40.png", photos):
        code, _, told = run_tool("predict", silo_run, path, "--out", out)
        assert code == 0
        assert "the clients' mean in layers that saw one value a channel: network.backbone." in told
        assert "gap" in told
    sizes = {path.name: Image.open(path).size for path in (out / "labels").iterdir()}
    assert sizes == {"40.png": (60, 40), "60.png": (40, 60), "50.png": (50, 50)}
    pair = np.zeros((2, 40, 60, 3), np.uint8)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "BatchNorm")  # two of one size have statistics
        Run(silo_run, None, ()).predict(list(pair), batch_size=2)
    with pytest.warns(UserWarning, match="saw one value a channel: network"):
        Run(silo_run, None, ()).predict(list(pair), batch_size=1)


def test_a_checkpoint_without_statistics_of_clients(silo_run, photos_of_three_sizes, run_tool):
    payload = load_checkpoint(silo_run / CHECKPOINT)
    path = photos_of_three_sizes.parent / "weights.pth"
    save_checkpoint(path, {"state_dict": payload["state_dict"], "round": 1})
    photo, out = photos_of_three_sizes / "40.png", photos_of_three_sizes.parent / "out"
    code, _, told = run_tool("predict", silo_run, photo, "--checkpoint", path, "--out", out)
    assert code == 2
    assert "checkpoint: has no BatchNorm statistics of clients, and network." in told
    run = Run(silo_run, None, ())
    assert len(run.predict([photo, photo], checkpoint=path, batch_size=2)) == 2


def test_the_mean_statistics_are_those_of_all_clients_samples(small_run):
    """A pixel alone is to the only layer what a photograph is behind a global pooling."""
    payload = load_checkpoint(newest_checkpoint(small_run)[1])
    clients = payload["client_statistics"]
    statistics = torch.stack([state["personal.buffers"] for state in clients.values()]).double()
    means, variances = statistics.chunk(2, dim=1)
    samples = torch.tensor([[float(payload["client_sizes"][client])] for client in clients])
    share = samples / samples.sum()
    mean = (share * means).sum(0)
    variance = (share * (variances + means**2)).sum(0) - mean**2

    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 1)
    )
    weights = payload.get("averaged_state_dict", payload["state_dict"])
    network.load_state_dict({k.removeprefix("network."): v for k, v in weights.items()})
    network[1].running_mean.copy_(mean)
    network[1].running_var.copy_(variance)
    pixels = np.random.default_rng(4).integers(0, 255, (60, 1, 1, 3), np.uint8)
    with torch.no_grad():
        logits = network.eval()(torch.from_numpy(pixels).permute(0, 3, 1, 2) / 127.5 - 1)
    expected = logits.argmax(1).flatten().tolist()

    with pytest.warns(UserWarning, match="one value a channel: network.1"):
        maps = fedseg.read_run(small_run).predict(list(pixels), batch_size=1, **TRUST)
    assert [map_.item() for map_ in maps] == expected
    assert len(set(expected)) > 2


def test_threads_share_a_predictor(silo_run):
    """Batches of one size and of others, with statistics of their own, at the same time."""
    rng = np.random.default_rng(5)
    images = [rng.integers(0, 255, (40 + n % 3, 60, 3), np.uint8) for n in range(12)]
    with opened(silo_run) as predictor:

        def predict(image: np.ndarray) -> np.ndarray:
            return next(predictor.predict([image])).classes

        expected = list(map(predict, images))
        with ThreadPoolExecutor(4) as threads:
            maps = list(threads.map(predict, images))
        two = zip(predictor.predict(images[:1]), predictor.predict(images[3:4]), strict=True)
        for first, second in two:  # in turns
            assert (first.classes == expected[0]).all()
            assert (second.classes == expected[3]).all()
    assert all(map(np.array_equal, maps, expected))
    assert len({map_.tobytes() for map_ in expected}) > 6


def test_predictors_in_threads_do_not_see_each_other(small_run):
    run, rng = fedseg.read_run(small_run), np.random.default_rng(6)
    images = [rng.integers(0, 255, (24 + number, 40, 3), np.uint8) for number in range(8)]

    def predict(image: np.ndarray) -> np.ndarray:
        return run.predict([image], **TRUST)[0]

    expected = list(map(predict, images))
    with ThreadPoolExecutor(4) as threads:
        maps = list(threads.map(predict, images))
    assert all(map(np.array_equal, maps, expected))
    assert MODELS.get("torch.nn.Conv3d") is nn.Conv3d, "the registries are as before"


def test_a_photograph_is_decoded_once(silo_run, photos_of_three_sizes, monkeypatch):
    decoded = []

    def read_and_count(path: str) -> np.ndarray:
        decoded.append(Path(path).name)
        return read_image(path)

    monkeypatch.setattr("fedseg.inference.predictor.read_image", read_and_count)
    (photos_of_three_sizes / "damaged.png").write_bytes(b"no image")
    paths = [photos_of_three_sizes, photos_of_three_sizes / "40.png"]
    with pytest.warns(UserWarning, match=r"skipped: .*damaged\.png"):
        done = fedseg.predict(silo_run, paths, out=photos_of_three_sizes.parent / "out")
    assert sorted(decoded) == ["40.png", "40.png", "50.png", "60.png", "damaged.png"]
    assert len(done.files) == 2 * 4


def test_classes_beyond_a_byte(tmp_path):
    classes = read_classes({"classes": [f"class {number}" for number in range(300)]})
    ids = np.arange(300).reshape(15, 20)
    write_map(tmp_path, "map", np.zeros((15, 20, 3), np.uint8), ids, classes)
    assert (np.array(Image.open(tmp_path / "labels/map.png")) == ids).all()
    assert (tmp_path / "pictures/map.png").stat().st_size > 1000
    painted = paint(Panel(image=np.zeros((15, 20, 3), np.uint8), class_map=ids), classes)
    assert painted[14, 19].tolist() == [int(OPACITY * color) for color in classes.palette[299]]
    example = Example(np.zeros((15, 20, 3), np.uint8), ids, ids, "domain", "file")
    assert "mIoU of this image: 100.0" in draw_example(example, classes).get_suptitle()


def test_a_video_frame_by_frame(small_run, tmp_path):
    writer = cv2.VideoWriter(
        str(tmp_path / "film.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 5, (64, 36)
    )
    for shade in range(35):
        writer.write(np.full((36, 64, 3), shade, np.uint8))
    writer.release()
    done = fedseg.predict(small_run, [tmp_path / "film.avi"], out=tmp_path / "out", **TRUST)
    assert len(list((tmp_path / "out/labels/film").iterdir())) == 35
    film = cv2.VideoCapture(str(done.files[-1]))
    assert film.get(cv2.CAP_PROP_FPS) == 5 and film.get(cv2.CAP_PROP_FRAME_COUNT) == 35
    (tmp_path / "no.mp4").write_bytes(b"no video" * 99)
    with pytest.raises(DataError, match=r"no\.mp4"):
        fedseg.predict(small_run, [tmp_path / "no.mp4"], out=tmp_path / "out", **TRUST)


def test_classes_as_a_table(shapes_run, tmp_path):
    results = fedseg.read_run(shapes_run).results
    root = json.loads((shapes_run / "config.json").read_text())["val_dataloader"]["test"]["dataset"]
    root = Path(root["data_root"])
    pixels, truth = np.load(root / "test_images.npy"), np.load(root / "test_labels.npy")
    predicted = fedseg.read_run(shapes_run).predict(list(pixels))
    accuracy = 100 * np.mean(np.array(predicted) == truth)
    assert accuracy == pytest.approx(results.final["test"]["accuracy"], abs=1e-9)
    Image.fromarray(pixels[0]).resize((400, 300)).save(tmp_path / "=big.png")
    Image.fromarray(pixels[0]).save(tmp_path / "own.png")
    fedseg.predict(shapes_run, [tmp_path], out=tmp_path / "out")
    rows = list(csv.DictReader((tmp_path / "out/predictions.csv").read_text().splitlines()))
    assert [Path(row["file"]).name for row in rows] == ["=big.png", "own.png"]
    assert int(rows[1]["id"]) == predicted[0] and 0 < float(rows[1]["probability"]) <= 1
    fedseg.predict(shapes_run, out=tmp_path / "test")
    rows = list(csv.DictReader((tmp_path / "test/predictions_test.csv").read_text().splitlines()))
    assert [int(row["id"]) for row in rows] == [int(one) for one in predicted]
    with pytest.raises(ConfigError, match="domain"):
        fedseg.read_run(shapes_run).predict(list(pixels[:1]), domain="a")
    (tmp_path / "own.png").write_bytes((tmp_path / "own.png").read_bytes()[:200])
    (tmp_path / "own.heic").write_bytes(b"\0\0\0\x18ftypheic" + bytes(40))
    for name, words in (("own.png", r"own\.png"), ("own.heic", r"own\.heic: .*to JPEG or PNG")):
        with pytest.raises(DataError, match=words):
            fedseg.predict(shapes_run, [tmp_path / name], out=tmp_path / "out")
    with pytest.warns(UserWarning, match=r"skipped: .*own\.png"):
        fedseg.predict(shapes_run, [tmp_path], out=tmp_path / "out")
    rows = csv.DictReader((tmp_path / "out/predictions.csv").read_text().splitlines())
    assert [Path(row["file"]).name for row in rows] == ["=big.png"]
    (tmp_path / "=big.png").unlink()
    with pytest.raises(DataError, match="none of the images can be read"):
        fedseg.predict(shapes_run, str(tmp_path), out=tmp_path / "out")


def test_images_are_found_once_each(tmp_path):
    with pytest.raises(DataError, match="has no images or videos"):
        find_images([tmp_path])
    for name in ("a/x.jpg", "a/x.png", "b/x.jpg", "b/x_3.jpg", "b/x_3.png", "a/.b/x.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "a/Thumbs.db").touch()
    with pytest.warns(UserWarning, match=r"/a: skipped 1 files .*accepted: \.avi"):
        found = find_images([tmp_path / "a", tmp_path / "b", tmp_path / "b" / "x.jpg"])
    assert list(found) == ["x", "x_2", "x_4", "x_3", "x_3_2", "x_5"]
    assert found["x_3"].name == "x_3.jpg"  # a photograph keeps its own name
