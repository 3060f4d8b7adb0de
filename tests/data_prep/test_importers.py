"""``fedseg prepare segmentation --from``: annotations of other tools, converted once."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedseg.datasets import ListedDataset
from fedseg.partition import read_split
from fedseg.runner.experiment import load_config

HEIGHT, WIDTH = 12, 16
PHOTOS = [f"{site}/{number}.jpg" for site in "ab" for number in range(3)]


def write_photos(folder: Path) -> None:
    for number, name in enumerate(PHOTOS):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (WIDTH, HEIGHT), (20 * number, 90, 40)).save(folder / name)


def rectangle(x: int, y: int, width: int, height: int) -> list[int]:
    return [x, y, x + width, y, x + width, y + height, x, y + height]


def counts_of(mask: np.ndarray) -> list[int]:
    """The lengths of runs of a mask, column by column, the first of pixels outside."""
    pixels = mask.T.ravel()
    ends = np.flatnonzero(np.diff(pixels)) + 1
    runs = np.diff([0, *ends, pixels.size]).tolist()
    return [0, *runs] if pixels[0] else runs


MASK = np.zeros((HEIGHT, WIDTH), int)
MASK[0:3, 10:16] = 1

CATEGORIES = [{"id": 9, "name": "dog"}, {"id": 4, "name": "cat"}]
SHAPES = [  # category, segmentation: a small dog is on a large cat, whatever their order
    (9, [rectangle(2, 2, 4, 4)]),
    (4, [rectangle(0, 0, 10, 10), rectangle(12, 8, 3, 3)]),
    (9, {"size": [HEIGHT, WIDTH], "counts": counts_of(MASK)}),
]


def write_coco(folder: Path, **changes: object) -> Path:
    """Photographs in ``folder/images`` and annotations of all of them but the last."""
    write_photos(folder / "images")
    images = [{"id": n, "file_name": name} for n, name in enumerate(PHOTOS)]
    annotations = []
    for number in range(len(PHOTOS) - 1):
        for category, segmentation in SHAPES:
            shape = {"id": len(annotations), "image_id": number, "category_id": category}
            annotations.append({**shape, "segmentation": segmentation, "iscrowd": 0})
    content = {"images": images, "annotations": annotations, "categories": CATEGORIES}
    file = folder / "annotations.json"
    file.write_text(json.dumps({**content, **changes}))
    return file


def coco_options(file: Path) -> tuple:
    return ("--from", "coco", "--labels", file, "--images", file.parent / "images")


def test_coco(tmp_path, prepare):
    file, root = write_coco(tmp_path / "export"), tmp_path / "pets"
    options = (*coco_options(file), "--unseen", "b")
    shown = prepare("segmentation", root, *options)
    assert "id   0: background" in shown and "id   1: cat" in shown and "id   2: dog" in shown
    assert shown.splitlines()[-1].endswith(f"train {root / 'own_pets.py'}")
    expected = np.zeros((HEIGHT, WIDTH), int)
    expected[0:10, 0:10] = 1
    expected[8:11, 12:15] = 1
    expected[2:6, 2:6] = 2
    expected[MASK > 0] = 2
    picture = Image.open(root / "labels/a/0.png")
    assert picture.mode == "P" and (np.array(picture) == expected).all()
    assert not np.array(Image.open(root / "labels/b/2.png")).any()  # without annotations
    for name in PHOTOS:
        copy, photo = root / "images" / name, file.parent / "images" / name
        assert copy.read_bytes() == photo.read_bytes()
    lines = (root / "classes.txt").read_text().splitlines()
    assert lines == ["background,0,0,0", "cat,128,0,0", "dog,0,128,0"]
    config = load_config(root / "own_pets.py").train_dataloader.dataset
    assert config.classes == ["background", "cat", "dog"]
    templates = {"image_path": config.image_path, "label_path": config.label_path}
    dataset = ListedDataset(str(root), "splits/train", classes=config.classes, **templates)
    assert (dataset[0]["data_samples"].numpy() == expected).all()
    test = read_split(root / "splits/test").users
    assert {user: len(samples) for user, samples in test.items()} == {"seen": 1, "unseen": 3}


def test_a_second_import_changes_nothing_and_other_files_are_not_replaced(tmp_path, prepare):
    file, root = write_coco(tmp_path / "export"), tmp_path / "pets"
    command = ("segmentation", root, *coco_options(file), "--clients", 2)
    prepare(*command)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    prepare(*command)
    assert before == {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    content = json.loads(file.read_text())
    content["annotations"] = content["annotations"][1:]
    file.write_text(json.dumps(content))
    assert "labels/a/0.png: is another file: give --overwrite" in prepare.fails(*command)
    prepare(*command, "--overwrite")
    assert np.array(Image.open(root / "labels/a/0.png"))[4, 4] == 1


def test_images_may_lie_beside_the_annotations_and_in_the_root(tmp_path, prepare):
    """``--images`` is the folder of the JSON file by default; what is in place is not copied."""
    file = write_coco(tmp_path)
    beside = tmp_path / "images" / "_annotations.coco.json"
    file.rename(beside)
    prepare("segmentation", tmp_path, "--from", "coco", "--labels", beside, "--clients", 2)
    assert len(read_split(tmp_path / "splits/train").samples) == 4
    assert sum(1 for _ in tmp_path.rglob("*.jpg")) == len(PHOTOS)


def test_a_category_may_be_the_background(tmp_path, prepare):
    categories = [{"id": 4, "name": "background"}, {"id": 9, "name": "dog"}]
    file, root = write_coco(tmp_path / "export", categories=categories), tmp_path / "pets"
    prepare("segmentation", root, *coco_options(file), "--clients", 2)
    assert (root / "classes.txt").read_text() == "background,0,0,0\ndog,128,0,0\n"
    assert not np.array(Image.open(root / "labels/b/2.png")).any()


@pytest.mark.parametrize("labels", ["annotations.json", "../export/annotations.json"])
def test_a_file_of_coco_is_recognised(tmp_path, prepare, labels, monkeypatch):
    file = write_coco(tmp_path / "export")
    monkeypatch.chdir(file.parent)
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    options = (
        "--images",
        "images/{domain}/{name}.jpg",
        "--labels",
        labels,
        "--classes",
        "../classes.txt",
    )
    error = prepare.fails("segmentation", file.parent, *options, "--clients", 2)
    assert "is a file of COCO: give --from coco --labels" in error


def shape(segmentation: object) -> dict:
    return {"id": 7, "image_id": 0, "category_id": 4, "segmentation": segmentation}


COUNTS = {"size": [HEIGHT, WIDTH], "counts": [100, 92]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"annotations": [shape(None)]}, "annotation 7: segmentation must be polygons"),
        *[
            ({"annotations": [shape(drawn)]}, "annotation 7: segmentation must be polygons")
            for drawn in (
                *([], [[]], [[1, 2, 3, 4]], [[1, 2, 3, 4, 5, 6, 7]], [["x"] * 6], "x", 3, {}),
                *([[1e300, 0, 1, 1, 2, 2]], [[[1, 2]] * 6], [1, 2, 3, 4, 5, 6]),
                {**COUNTS, "counts": [100, 93]},
                {**COUNTS, "counts": [-8, 200]},
                {**COUNTS, "counts": "b0a1"},
                {**COUNTS, "size": [WIDTH, HEIGHT]},
            )
        ],
        ({"annotations": [{**shape([]), "category_id": 5}]}, "is no whole COCO file"),
        ({"annotations": [{"id": 3}]}, "is no whole COCO file"),
        ({"annotations": "x"}, "is no whole COCO file"),
        ({"categories": [{"id": 1}]}, "is no whole COCO file"),
        ({"images": [{"id": 1, "file_name": 7}]}, "is no whole COCO file"),
        ({"images": []}, "has no images"),
        ({"images": [{"id": 1, "file_name": "a/9.jpg"}]}, "9.jpg: does not exist"),
        ({"images": [{"id": 1, "file_name": "../images/a/0.jpg"}]}, "has an empty part, '.' or"),
        ({"categories": [{"id": 4, "name": "a,b"}, {"id": 9, "name": "dog"}]}, "line 2: must be"),
        ({"categories": {}}, "is no whole COCO file"),
    ],
)
def test_damaged_files_of_coco_are_named(tmp_path, prepare, changes, message):
    file, root = write_coco(tmp_path / "export", **changes), tmp_path / "pets"
    error = prepare.fails("segmentation", root, *coco_options(file), "--clients", 2)
    assert message in error and "export" in error, error
    assert not (root / "splits").exists()


def test_options_that_do_not_fit_an_import(tmp_path, prepare):
    file, root = write_coco(tmp_path / "export"), tmp_path / "pets"
    command = ("segmentation", root, "--from", "coco", "--clients", 2)
    labels = ("--labels", file)
    assert "--labels: name the annotations" in prepare.fails(*command)
    assert "--labels: must be a file or folder" in prepare.fails(*command, "--labels", "none")
    assert "--images: must be a file or folder" in prepare.fails(
        *command, *labels, "--images", "none"
    )
    assert "coco has its own" in prepare.fails(*command, *labels, "--classes", "x.txt")
    photo = file.parent / "images" / PHOTOS[0]
    assert "is not readable as JSON" in prepare.fails(*command, "--labels", photo)
    assert "must be a JSON file of COCO" in prepare.fails(*command, "--labels", file.parent)
    assert "acdc has its own" in prepare.fails("acdc", file.parent, "--from", "coco")


COLORS = {"background": (0, 0, 0), "cat": (250, 50, 83), "dog": (51, 221, 255)}


def write_cvat(folder: Path) -> Path:
    """CVAT's "Segmentation mask 1.1": colors, and the images if they were exported."""
    write_photos(folder / "JPEGImages")
    lines = ["# label:color_rgb:parts:actions"]
    lines += [f"{name}:{r},{g},{b}::" for name, (r, g, b) in COLORS.items()]
    (folder / "labelmap.txt").write_text("\n".join(lines) + "\n")
    for name in PHOTOS:
        path = folder / "SegmentationClass" / Path(name).with_suffix(".png")
        path.parent.mkdir(parents=True, exist_ok=True)
        ids = np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH) % 3
        Image.fromarray(np.array([*COLORS.values()], np.uint8)[ids]).save(path)
    return folder


def test_cvat(tmp_path, prepare):
    folder, root = write_cvat(tmp_path / "export"), tmp_path / "pets"
    command = ("segmentation", root, "--from", "cvat", "--labels", folder, "--clients", 2)
    shown = prepare(*command)
    assert "id   2: dog" in shown
    lines = [f"{name},{r},{g},{b}" for name, (r, g, b) in COLORS.items()]
    assert (root / "classes.txt").read_text().splitlines() == lines
    ids = np.array(Image.open(root / "labels/b/1.png"))
    assert (ids == np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH) % 3).all()
    (folder / "JPEGImages").rename(tmp_path / "photos")
    assert "has no image a/0: name its folder with --images" in prepare.fails(*command)
    prepare(*command, "--images", tmp_path / "photos")
    (folder / "labelmap.txt").write_text("background:0,0,0::\ncat 1 2 3\n")
    assert "labelmap.txt: line 2: must be name:r,g,b" in prepare.fails(*command)
    (folder / "labelmap.txt").unlink()
    assert "must be CVAT's folder with labelmap.txt" in prepare.fails(*command)


POINTS = {
    "polygon": [[0, 0], [9, 0], [9, 9], [0, 9]],
    "rectangle": [[5, 4], [2, 2]],
    "circle": [[12, 6], [14, 6]],
}


def write_labelme(folder: Path, *shapes: tuple[str, str, list]) -> Path:
    """Photographs with a JSON file of the same shapes beside each."""
    write_photos(folder)
    drawn = [{"label": label, "shape_type": kind, "points": p} for label, kind, p in shapes]
    for name in PHOTOS:
        path = (folder / name).with_suffix(".json")
        path.write_text(json.dumps({"imagePath": path.name, "shapes": drawn}))
    return folder


def labelme_command(root: Path, folder: Path) -> tuple:
    return ("segmentation", root, "--from", "labelme", "--labels", folder, "--clients", 2)


def test_labelme(tmp_path, prepare):
    shapes = [
        ("dog", "polygon", POINTS["polygon"]),
        ("cat", "rectangle", POINTS["rectangle"]),
        ("__ignore__", "circle", POINTS["circle"]),
    ]
    folder, root = write_labelme(tmp_path / "export", *shapes), tmp_path / "pets"
    prepare(*labelme_command(root, folder))
    lines = (root / "classes.txt").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["background", "cat", "dog"]
    expected = np.zeros((HEIGHT, WIDTH), int)
    expected[0:10, 0:10] = 2
    expected[2:5, 2:6] = 1
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    expected[(x - 12) ** 2 + (y - 6) ** 2 <= 5] = 255
    assert (np.array(Image.open(root / "labels/b/1.png")) == expected).all()
    for photo in folder.rglob("*.jpg"):
        photo.unlink()
    assert "has no image" in prepare.fails(*labelme_command(root, folder))


@pytest.mark.parametrize(
    ("kind", "points", "message"),
    [
        ("linestrip", POINTS["polygon"], "must be a polygon of three points"),
        ("polygon", POINTS["rectangle"], "must be a polygon of three points"),
        ("rectangle", POINTS["polygon"], "must be a polygon of three points"),
        ("polygon", [[0, 0], [900, 0], [9, 9]], "must be inside of the image"),
        ("polygon", [[0, 0, 1]], "is no whole labelme file"),
        ("polygon", "x", "is no whole labelme file"),
    ],
)
def test_damaged_files_of_labelme_are_named(tmp_path, prepare, kind, points, message):
    folder = write_labelme(tmp_path / "export", ("dog", kind, points))
    error = prepare.fails(*labelme_command(tmp_path / "pets", folder))
    assert message in error and "0.json" in error, error
    assert not (tmp_path / "pets" / "splits").exists()
