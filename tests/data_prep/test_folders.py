"""``fedseg prepare segmentation``: what it understands of a folder, splits and refuses."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedseg.data_prep.classes import classes_text, read_classes
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
    code, out, error = run_tool("splits", "pets/own_pets.py", "--pixels", "--out", "pets.pdf")
    assert code == 0 and Path("pets.pdf").exists(), error


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
        (SITES, ["--unseen", "b"], {"a": 5}, {"seen": 1, "unseen": 6}),
        (SITES, ["--unseen", "b", "--test-share", "0"], {"a": 6}, {"unseen": 6}),
        (SITES, ["--unseen", "b", "--test-share", "0.5"], {"a": 3}, {"seen": 3, "unseen": 6}),
        (VOC, ["--clients", "2", "--test-share", "0.5"], {"0": 3, "1": 3}, {"seen": 6}),
        (VOC, ["--clients", "3", "--partition", "size", "--alpha", "0.5"], 10, {"seen": 2}),
        (VOC, ["--clients", "3", "--partition", "dirichlet", "--alpha", "0.1"], 10, {"seen": 2}),
    ],
)
def test_clients_and_test_sets(voc, prepare, templates, options, clients, tests):
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
    elif what in ("ignored", "void"):
        for path in (root / "SegmentationClass").glob("*" if what == "ignored" else "b_*"):
            Image.fromarray(np.full((32, 40), 255, np.uint8)).save(path)
    elif what == "name":
        for path in root.glob("*/b_0.*"):
            path.rename(path.with_stem("b\udcff"))
    elif what == "no pairs":
        for path in (root / "SegmentationClass").iterdir():
            path.unlink()


@pytest.mark.parametrize(
    ("what", "options", "message"),
    [
        ("cut", [], r"1 files: .*a_0\.jpg: cannot be decoded"),
        ("empty", [], r"a_0\.jpg: the file is empty"),
        (
            "ids",
            [],
            r"6 label maps, such as .*a_0\.png, have ids \[7\] .*: give --classes",
        ),
        ("id", [], r"1 label maps, such as .*a_0\.png, have ids \[7\] without a class: "),
        ("size", [], r"has 32x40 pixels, its image 40x32, as displayed .*EXIF"),
        ("jpeg", [], r"a_0\.png: its content is of another format"),
        ("twice", [], r"labels\.txt: line 3: names 'cat' twice"),
        ("binary", [], r"labels\.txt: cannot be read as UTF-8 text"),
        ("ignored", [], r"pets: the label maps of training images show no class and ignored"),
        ("name", [], r"b\\udcff\.jpg' is not named in UTF-8: rename"),
        ("void", [*SITES, "--unseen", "b"], r"label maps of unseen show no class and ignored"),
        ("no pairs", [], r"has 0 images JPEGImages/\{name\}\.jpg .*change these templates"),
        ("", ["--labels", "{site}/{name}.png"], r"--labels: \{site\} is no field of --images"),
        ("", ["--labels", "*/*.png"], r"template: must be a path with fields such as"),
        ("", ["--labels", "../{name}.png"], r"--labels: .* has an empty part"),
        ("", ["--partition", "domain"], r"--partition: domain needs \{domain\} in --images"),
        ("", ["--labels", "{name}.json"], r"--labels: must be PNG files, not .* --from labelme"),
        ("", ["--test-share", "1.5"], r"--test-share: must be less than 1, not 1\.5"),
        ("", ["--test-share", "0"], r"--test-share: must be above 0 without --unseen"),
        ("", ["--unseen", "b"], r"--unseen: needs \{domain\} in --images"),
        ("", [*SITES, "--unseen", "aa"], r"not 'aa' \(did you mean 'a'\?\): there are a, b"),
        ("", [*SITES, "--unseen", "a", "b", "--test-share", "0"], r"every image is a test image"),
        ("", [*SITES, "--unseen", "a", "b"], r"no domain has two images to take a share"),
        ("", ["--clients", "20"], r"partition\.num_clients: 20 clients"),
        ("", ["--clients", "6"], r"client '4' has one image to train on, and BatchNorm needs two"),
    ],
)
def test_damaged_folders_and_options_are_named(voc, prepare, what, options, message):
    damage(voc, what)
    clients = () if SITES[1] in options else ("--clients", 3)
    error = prepare.fails("segmentation", voc, *VOC, *clients, *options)
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
