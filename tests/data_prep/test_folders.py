"""``fedseg prepare segmentation``: what it understands of a folder, draws, splits and refuses."""

import base64
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from fedseg.data_prep.classes import classes_text, read_classes
from fedseg.data_prep.polygons import draw_polygons
from fedseg.errors import DataError
from fedseg.partition import read_split
from fedseg.runner.experiment import load_config

CLASSES = ("--classes", "labels.txt")
LABELS = ("--labels", "SegmentationClass/{name}.png", *CLASSES)
VOC = ("--images", "JPEGImages/{name}.jpg", *LABELS)
SITES = ("--images", "JPEGImages/{domain}_{name}.jpg")
SITES = (*SITES, "--labels", "SegmentationClass/{domain}_{name}.png", *CLASSES)
COLORS = [[0, 0, 0], [128, 0, 0], [0, 128, 0]]


def write_voc(root: Path, names: list[str], seed: int = 0) -> Path:
    """Images with palette label maps as labelme2voc writes them: 255 in the first row."""
    rng = np.random.default_rng(seed)
    for folder in ("JPEGImages", "SegmentationClass"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "labels.txt").write_text("__ignore__\n_background_\ncat\ndog\n")
    for name in names:
        label = rng.integers(0, 3, (4, 5), np.uint8).repeat(8, 0).repeat(8, 1)
        label[0] = 255
        Image.fromarray(np.stack([label * 80] * 3, 2)).save(root / f"JPEGImages/{name}.jpg")
        stored = Image.fromarray(label, "P")
        stored.putpalette([7, 0, 0] * 256)
        stored.save(root / f"SegmentationClass/{name}.png")
    return root


@pytest.fixture
def voc(tmp_path: Path) -> Path:
    return write_voc(tmp_path / "pets", [f"{site}_{n}" for site in "ab" for n in range(6)])


def test_a_folder_is_described_split_and_given_a_config(voc, tmp_path, run_tool, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (voc / "JPEGImages/alone.jpg").write_bytes((voc / "JPEGImages/a_0.jpg").read_bytes())
    code, out, error = run_tool("prepare", "segmentation", "pets", *VOC, "--clients", "3")
    assert code == 0, error
    assert "pets: 12 images with label maps" in out
    assert "1 images without label map are left out: JPEGImages/alone.jpg" in out
    assert "sizes: 40x32 (12)" in out and "id 255: ignored, 3.12 % of the pixels, in 12" in out
    assert "id   2: dog" in out and "seen: 2" in out
    command = out.strip().splitlines()[-1]
    assert command.startswith("Next: ") and command.endswith("fedseg train pets/own_pets.py")
    config = load_config(tmp_path / "pets" / "own_pets.py")
    assert len(read_split(voc / config.train_dataloader.dataset.split).users) == 3
    assert config.model.num_classes == 3
    code, out, error = run_tool("splits", "pets/own_pets.py", "--pixels", "--out", "pictures")
    assert code == 0 and Path("pictures/own_pets_pixels.png").exists(), error


def test_a_second_run_changes_nothing_and_another_split_is_refused(voc, prepare):
    arguments = ("segmentation", voc, *VOC, "--clients")
    prepare(*arguments, 3)
    before = {p: p.read_bytes() for p in voc.rglob("*") if p.is_file()}
    prepare(*arguments, 3)
    assert before == {p: p.read_bytes() for p in voc.rglob("*") if p.is_file()}
    assert "has another split: give --overwrite" in prepare.fails(*arguments, 4)
    prepare(*arguments, 4, "--overwrite")
    assert len(read_split(voc / "splits/train").users) == 4


@pytest.mark.parametrize(
    ("templates", "options", "clients", "tests"),
    [
        (SITES, [], {"a": 5, "b": 5}, {"seen": 2}),
        (SITES, ["--test", "b"], {"a": 5}, {"seen": 1, "unseen": 6}),
        (SITES, ["--test", "b", "0"], {"a": 6}, {"unseen": 6}),
        (SITES, ["--test", "b", "0.5"], {"a": 3}, {"seen": 3, "unseen": 6}),
        (VOC, ["--clients", "2", "--test", "JPEGImages/b_*"], None, None),
        (VOC, ["--clients", "2", "--test", "JPEGImages/b_{n}.jpg"], {"0": 3, "1": 3}, {"test": 6}),
        (VOC, ["--clients", "2", "--test", "val.txt"], {"0": 5, "1": 5}, {"test": 2}),
        (VOC, ["--clients", "2", "--test", "spaces.txt"], {"0": 5, "1": 5}, {"test": 2}),
        (VOC, ["--clients", "3", "--partition", "size", "--alpha", "0.5"], 10, {"seen": 2}),
        (VOC, ["--clients", "3", "--partition", "dirichlet", "--alpha", "0.1"], 10, {"seen": 2}),
    ],
)
def test_clients_and_test_sets(voc, prepare, templates, options, clients, tests):
    (voc / "val.txt").write_text("a_1\n./JPEGImages/b_3.jpg\n")
    (voc / "spaces.txt").write_text("\ufeffa_1\r\nb 3.jpg\r\n")
    for path in voc.glob("*/b_3.*") if "spaces.txt" in options else ():
        path.rename(path.with_stem("b 3"))
    if tests is None:
        error = prepare.fails("segmentation", voc, *templates, *options)
        assert "template: must be a path with fields such as {name}" in error
        return
    prepare("segmentation", voc, *templates, *options)
    train, test = (read_split(voc / "splits" / part).users for part in ("train", "test"))
    sizes = {user: len(samples) for user, samples in train.items()}
    assert sizes == clients or sum(sizes.values()) == clients
    assert {user: len(samples) for user, samples in test.items()} == tests
    held = [image for users in (train, test) for of in users.values() for image, _ in of]
    assert len(held) == len(set(held)) == sum(sizes.values()) + sum(tests.values())


def damage(root: Path, what: str) -> None:
    image, label = root / "JPEGImages/a_0.jpg", root / "SegmentationClass/a_0.png"
    if what in ("cut", "empty"):
        image.write_bytes(image.read_bytes()[: -200 if what == "cut" else 0])
    elif what in ("id", "ids"):
        for path in [label] if what == "id" else root.glob("*/a_*.png"):
            Image.fromarray(np.full((32, 40), 7, np.uint8)).save(path)
    elif what == "size":
        Image.fromarray(np.zeros((40, 32), np.uint8)).save(label)
    elif what == "jpeg":
        Image.fromarray(np.zeros((32, 40), np.uint8)).save(label, "JPEG")
    elif what in ("twice", "binary"):
        classes = b"cat\ndog\ncat\n" if what == "twice" else b"\xff\xfe\x00c"
        (root / "labels.txt").write_bytes(classes)
    elif ids := {"ignored": [255], "void": [1, 2]}.get(what):
        for number, path in enumerate((root / "SegmentationClass").iterdir()):
            value = 255 if path.name == "b_3.png" else ids[number % len(ids)]
            Image.fromarray(np.full((32, 40), value, np.uint8)).save(path)
    elif what == "name":
        for path in root.glob("*/b_0.*"):
            path.rename(path.with_stem("b\udcff"))
    elif what in ("list", "twins", "nobody"):
        (root / "val.txt").write_text({"list": "a_0 b_9", "twins": "a_0.jpg", "nobody": "\n"}[what])
        if what == "twins":
            write_voc(root, ["a_0.jpg"])
    elif what == "no pairs":
        for path in (root / "SegmentationClass").iterdir():
            path.unlink()


@pytest.mark.parametrize(
    ("what", "options", "message"),
    [
        ("cut", [], r"1 files: .*a_0\.jpg: cannot be decoded"),
        ("empty", [], r"a_0\.jpg: the file is empty"),
        ("ids", [], r"6 files: .*a_0\.png: has label ids \[7\], .*, \.\.\.: repair them"),
        ("id", [], r"a_0\.png: has label ids \[7\], which no class has: name .* --classes"),
        ("size", [], r"\(40, 32\), its image \(32, 40\) .*EXIF"),
        ("jpeg", [], r"a_0\.png: its content is of another format"),
        ("twice", [], r"labels\.txt: line 3: names 'cat' twice"),
        ("binary", [], r"labels\.txt: cannot be read as UTF-8 text"),
        ("ignored", [], r"pets: the label maps of training images show no class and ignored"),
        ("name", [], r"b\\udcff\.jpg' is not named in UTF-8: rename"),
        ("", ["--test", "no.txt"], r"pets/no\.txt: cannot be read \(No such file or directory\)"),
        ("void", ["--test", "JPEGImages/b_3.jpg"], r"label maps of test show no class and ignored"),
        ("list", ["--test", "val.txt"], r"val\.txt: names 'b_9', of which there are 0 images"),
        ("twins", ["--test", "val.txt"], r"names 'a_0\.jpg', of which there are 2 images"),
        ("nobody", ["--test", "val.txt"], r"val\.txt: names '', of which there are 0 images"),
        ("no pairs", [], r"has 0 images JPEGImages/\{name\}\.jpg .*change these templates"),
        ("", ["--labels", "{site}/{name}.png"], r"--labels: must have fields of --images"),
        ("", ["--labels", "*/*.png"], r"template: must be a path with fields such as"),
        ("", ["--labels", "../{name}.png"], r"--labels: .* has an empty part"),
        ("", ["--partition", "domain"], r"--partition: domain needs \{domain\} in --images"),
        ("", ["--test", "1.5"], r"--test: must be one share, from 0 to below 1"),
        ("", ["--test", "JPEGImages/{n}.jpg"], r"every image is a test image"),
        ("", ["--clients", "20"], r"partition\.num_clients: 20 clients"),
        ("", ["--test", "0.1", "0.2"], r"--test: must be one share, from 0 to below 1"),
        ("", ["--test", "0.1.2"], r"--test: '0\.1\.2' is not a share, a domain"),
        ("", ["--clients", "6"], r"client '4' has one image to train on, and BatchNorm needs two"),
    ],
)
def test_damaged_folders_and_options_are_named(voc, prepare, what, options, message):
    damage(voc, what)
    error = prepare.fails("segmentation", voc, *VOC, "--clients", 3, *options)
    assert re.search(message, error), error
    assert not (voc / "splits").exists()


@pytest.mark.parametrize(
    ("text", "names", "colors"),
    [
        ("sky\ntree top\n", ["sky", "tree top"], []),
        ("\ufeffsky,1,2,3\r\ntree top, 30, 120, 40", None, [[1, 2, 3], [30, 120, 40]]),
        ("__ignore__\n_background_\ncat\n\n", ["_background_", "cat"], []),
        # numbers belong to the names: nothing is renamed, and the order is that of the lines
        ("1 storey\n0 storeys\n", ["1 storey", "0 storeys"], []),
        ("stage 0\nphase 1\nstep 2\n", ["stage 0", "phase 1", "step 2"], []),
        ("grade 3\ngrade 1\n", ["grade 3", "grade 1"], []),
        ("30 km/h\n0.5 m\n2\n", ["30 km/h", "0.5 m", "2"], []),
        ("person (sitting)\ncar/truck\nrock'n'roll", None, []),
        ("\u0645\u06cc\u200c\u0631\nu\u0308", ["\u0645\u06cc\u200c\u0631", "\u00fc"], []),
    ],
)
def test_a_class_file_has_a_name_a_line_perhaps_with_a_color(tmp_path, text, names, colors):
    path = tmp_path / "classes.txt"
    path.write_text(text, encoding="utf-8", newline="")
    read = read_classes(path)
    assert read[1] == colors
    if names is not None:
        assert read[0] == names
    if colors:
        again = classes_text(path, *read)
        path.write_text(again)
        assert read_classes(path) == read


@pytest.mark.parametrize(
    "line",
    [
        *("0: cat", "cat,0", "id,name", "cat:1,2,3::", "cat 1 2 3", "cat;1;2;3", "cat,1,2,3,255"),
        *("# comment", "- cat", "-1 cat", "'cat'", '"cat"', "1 -> cat", "cat = 1", "cat #0102ff"),
        *('["cat", "dog"]', "<View>", "cat\tdog", "cat, dog", "cat (1,2,3)", "ca\0t", ",1,2,3"),
        *("{", f"cat{' ' * 900},x"),
    ],
)
def test_other_forms_of_class_files_are_refused_with_their_line(tmp_path, line):
    path = tmp_path / "classes.txt"
    path.write_text(f"road\n{line}\nsky\n")
    with pytest.raises(DataError) as told:
        read_classes(path)
    text = str(told.value)
    assert text.startswith(f"{path}: line 2: must be NAME, or NAME,R,G,B, not ")
    assert line[:2] in text and len(text) < len(str(path)) + 150


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cat,1,2,3\ndog\n", "line 2: give each class a color, or none"),
        ("cat\ndog,1,2,3\n", "line 2: give each class a color, or none"),
        ("cat,1,2,3\ndog,300,2,3\n", "line 2: R, G and B must be 0 to 255, not 300"),
        ("cat\ndog\ncat\n", "line 3: names 'cat' twice"),
        ("", "must name 1 to 255 classes, not 0"),
        (
            "\n".join(f"class {number}" for number in range(256)),
            "must name 1 to 255 classes, not 256",
        ),
    ],
)
def test_class_files_that_contradict_themselves(tmp_path, text, message):
    path = tmp_path / "classes.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=re.escape(f"{path}: ") + message):
        read_classes(path)


# ---------------------------------------------------------------- polygons

SQUARE = [[2, 2], [12, 2], [12, 12], [2, 12]]
RIGHT = [[24, 0], [28, 0], [28, 4], [24, 4]]
INNER = [[5, 5], [9, 5], [9, 9], [5, 9]]


def as_labelme(shapes: list[dict], size: tuple[int, int]) -> np.ndarray:
    """labelme's own drawing: a binary picture of each shape, later ones over earlier ones."""
    label = np.zeros(size, int)
    for shape in shapes:
        canvas = Image.new("L", size[::-1])
        draw, points = ImageDraw.Draw(canvas), [tuple(p) for p in shape["points"]]
        if shape["shape_type"] == "circle":
            (x, y), (u, v) = points
            r = np.hypot(x - u, y - v)
            draw.ellipse([x - r, y - r, x + r, y + r], outline=1, fill=1)
        elif shape["shape_type"] == "rectangle":
            draw.rectangle([points[0], points[-2 if points[2:] else -1]], outline=1, fill=1)
        else:
            draw.polygon(points, outline=1, fill=1)
        label[np.array(canvas) == 1] = shape["value"]
    return label


def test_shapes_of_labelme(tmp_path):
    shapes = [
        dict(label="cat", value=1, shape_type="polygon", points=SQUARE),
        dict(label="_background_", value=0, shape_type="polygon", points=INNER),  # a hole
        dict(label="dog", value=2, shape_type="circle", points=[[20, 8], [24.5, 8]]),
        dict(label="cat", value=1, shape_type="rectangle", points=[[18.2, 10], [29, 14.7]]),
        dict(label="__ignore__", value=255, shape_type="polygon", points=[[0, 0], [9, 1], [3, 7]]),
        dict(label="Hu\u0308nd", value=3, shape_type="rectangle", points=RIGHT),  # X-AnyLabeling's
        dict(label="cat", value=1, shape_type="rotation", points=[[27, 1], [29, 3], [27, 5]]),
    ]
    path, ids = tmp_path / "a.json", {"_background_": 0, "cat": 1, "dog": 2, "__ignore__": 255}
    ids["H\u00fcnd"] = 3
    content = json.dumps({"shapes": shapes, "imageHeight": 16, "imageWidth": 30})
    path.write_text("\ufeff" + content, "utf-8")  # of Windows
    drawn = draw_polygons(path, ids, (16, 30))
    assert (drawn == as_labelme(shapes, (16, 30))).all()
    assert drawn[7, 7] == 0 and drawn[4, 11] == 1 and drawn[8, 20] == 2 and drawn[15, 29] == 0
    assert drawn[2, 4] == 255  # drawn last
    brush = mask_of(Image.fromarray(np.eye(3, dtype=bool)), 4, 1)
    path.write_text(json.dumps({"shapes": [brush | {"label": "dog"}]}))
    drawn = draw_polygons(path, {"cat": 0, "dog": 1}, (6, 9))  # no background: ignored
    assert np.argwhere(drawn == 1).tolist() == [[1, 4], [2, 5], [3, 6]]
    assert (drawn == 255).sum() == 6 * 9 - 3
    # over the edge of an image whose size is known to be this
    shape = dict(label="dog", points=[[6, 2], [20, 2], [20, 20], [6, 20]])
    path.write_text(json.dumps({"shapes": [shape], "imageHeight": 6, "imageWidth": 9}))
    assert (draw_polygons(path, {"cat": 0, "dog": 1}, (6, 9)) == 1).sum() == 4 * 3


def test_polygons_of_cityscapes(tmp_path):
    def whole(x: int) -> list[list[int]]:
        return [[x, 0], [7, 0], [7, 3], [x, 3]]

    objects = [
        ("road", whole(0)), ("car", whole(2)), ("license plate", whole(3)), ("cargroup", whole(4)),
        ("static", whole(5)), ("out of roi", whole(6)), ("road", whole(7)),
    ]  # fmt: skip
    content = {"imgHeight": 4, "imgWidth": 8}
    content["objects"] = [{"label": label, "polygon": polygon} for label, polygon in objects]
    content["objects"][-1]["deleted"] = 1
    path = tmp_path / "a_gtFine_polygons.json"
    path.write_text(json.dumps(content))
    drawn = draw_polygons(path, {"car": 0, "road": 1}, (4, 8))
    assert (drawn == [[1, 1, 0, 0, 0, 255, 255, 255]] * 4).all()


CIRCLE = dict(label="cat", shape_type="circle")


def mask_of(picture: str | Image.Image, x: int = 0, y: int = 0) -> dict:
    picture = Image.new(picture, (4, 4)) if isinstance(picture, str) else picture
    picture.save(stored := io.BytesIO(), "PNG")
    points = [[x, y], [x + picture.width - 1, y + picture.height - 1]]
    text = base64.b64encode(stored.getvalue()).decode()
    return dict(label="cat", shape_type="mask", points=points, mask=text)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"shapes": [mask_of("RGBA")]}, r"shapes\[0\]: its mask is RGBA: make it black and white"),
        ({"shapes": [mask_of("L", 13)]}, "is outside of the image or partly"),
        ({"shapes": [mask_of("L", -1)]}, "is outside of the image or partly"),
        *[
            ({"shapes": [{**mask_of("L"), "mask": m}]}, "its mask must be a PNG in base64")
            for m in (None, "no", "bm8=")
        ],
        ({"shapes": [mask_of("L")]}, r"shapes\[0\]: covers no pixel"),
        ({"shapes": [CIRCLE | dict(points=[[5, 5], [5, 5]])]}, "covers no pixel: delete it, or"),
        *[
            ({"shapes": [{"label": "cat", "points": [*p, [0, 0]]}]}, "no shares")
            for p in ([[0.1, 0.2], [0.9, 0]], [[1, 0], [1, 0.6]])
        ],
        ({"shapes": [mask_of("L") | dict(points=[[0, 0], [9, 9]])]}, r"are \[10\.0, 10\.0\] apart"),
        ({"shapes": [CIRCLE | dict(points=[[30, 5], [36, 5]])]}, "is outside of the image"),
        ({"shapes": [CIRCLE | dict(points=SQUARE)]}, r"shapes\[0\]: must have two points"),
        ({"shapes": [{"label": "cat", "points": [[2, 2], [30, 2], [9, 30]]}]}, "is outside of"),
        ({"shapes": [{"label": "cow", "points": SQUARE}]}, r"shapes\[0\]: unknown label 'cow'"),
        ({"shapes": [{"label": "cat", "points": SQUARE[:2]}]}, r"shapes\[0\]: has too few points"),
        ({"shapes": [{"label": "cat", "points": [["a", 1]]}]}, r"shapes\[0\]: could not convert"),
        ({"shapes": [{"label": "cat", "points": [[1e300, 1]] * 3}]}, "has a point far away"),
        ({"shapes": [{"label": "cat", "points": [[10**400, 1]] * 3}]}, r"shapes\[0\]: "),
        ({"shapes": [{"label": "cat"}]}, r"shapes\[0\]: has no 'points'"),
        ({"shapes": [{"label": ["cat"], "points": SQUARE}]}, r"shapes\[0\]: "),
        ({"shapes": [{"label": "cat", "points": SQUARE, "shape_type": "line"}]}, "is a line"),
        (
            {"shapes": [], "imageHeight": 9},
            r"imageHeight and .* are 9 and None, but its image is \[16, 16\]",
        ),
        ({"shapes": [{"label": "cat", "points": None}]}, r"shapes\[0\]: its points must be"),
        ({"shapes": [{"label": "cat", "points": [[1, 2, 3]] * 3}]}, "a list of pairs"),
        ({"shapes": [{"label": 7, "points": SQUARE}]}, "unknown label '7'"),
        ({"shapes": [{"label": "cat", "points": [[0, 20], [9, 20], [9, 30]]}]}, "is outside of"),
        ({"shapes": [], "imageHeight": "16"}, r"imageHeight and .* are '16' and None"),
        *[(other, "has no list of labelme's shapes") for other in ({"shapes": {}}, {}, [])],
        ({"images": [], "annotations": [{"segmentation": [[1, 2]]}]}, "COCO and .* with --from"),
    ],
)
def test_damaged_polygons_are_named(tmp_path, content, message):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=message) as told:
        draw_polygons(path, {"cat": 0}, (16, 16))
    assert str(told.value).startswith(f"{path}: ")


def test_labelme_files_beside_images(voc, prepare):
    (voc / "labels.txt").write_text("cat\ndog\n")
    for image in (voc / "JPEGImages").iterdir():
        shapes = [{"label": "dog", "points": SQUARE, "shape_type": "polygon"}]
        image.with_suffix(".json").write_text(json.dumps({"shapes": shapes}))
    options = ("--images", "JPEGImages/{name}.jpg", "--labels", "JPEGImages/{name}.json")
    options = ("segmentation", voc, *options, *CLASSES, "--clients", 3)
    out = prepare(*options)
    assert "id   1: dog" in out and "training images show only dog and ignored pixels" in out
    label = Image.open(voc / "drawn/JPEGImages/a_0.png")
    assert label.mode == "P" and np.array(label)[7, 7] == 1 and np.array(label)[0, 0] == 255
    config = load_config(voc / "own_pets.py")
    assert config.train_dataloader.dataset.label_path == "drawn/JPEGImages/{name}.png"
    (voc / "JPEGImages/b_1.json").write_text('{"shapes": [{"label": "cow", "points": []}]}')
    error = prepare.fails(*options)
    assert "1 files of polygons: " in error and "b_1.json: shapes[0]: unknown label 'cow'" in error
