"""The prepare tools, from the command line to the files on disk. Rendering is faked here."""

import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from data_prep import camvid, cityscapes, embedded, idda
from data_prep.label_classes import classes_present
from fedseg.cli import run
from fedseg.datasets import CamVidDataset, IDDADataset
from fedseg.errors import DataError
from fedseg.partition import Split, read_split, write_split

REPOSITORY = Path(__file__).parents[2]
SHARED = REPOSITORY.parent / "shared" / "data"
needs_published = pytest.mark.skipif(
    not (SHARED / "feddrive_splits").is_dir(),
    reason="needs the published splits, ../shared/data/feddrive_splits",
)


def write_pair(image_root, label_root, sample, ids=(7, 13), size=(16, 8)):
    """A grey image and a label map whose columns cycle through raw ids."""
    image, label = image_root / sample[0], label_root / sample[1]
    image.parent.mkdir(parents=True, exist_ok=True)
    label.parent.mkdir(parents=True, exist_ok=True)
    width, height = size
    row = np.array([ids[i % len(ids)] for i in range(width)], dtype=np.uint8)
    cv2.imwrite(str(image), np.full((height, width, 3), 99, np.uint8))
    cv2.imwrite(str(label), np.tile(row, (height, 1)))


def snapshot(folder):
    """Every file below a folder: relative path -> bytes."""
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


@pytest.fixture
def rendered(monkeypatch):
    """A renderer that writes tiny pairs; yields the list of what it was asked for, call by call."""
    calls = []

    def writer(image_root, label_root):
        def write(root, files, **options):
            calls.append((list(files), options))
            for number, sample in enumerate(files):
                # Every fifth label map shows a bicycle (16), the others road and sky.
                ids = (7, 20, 16) if number % 5 == 0 else (7, 20)
                write_pair(Path(root) / image_root, Path(root) / label_root, sample, ids)
            (Path(root) / "dataset.json").write_text(json.dumps({"embedded": True}))

        return write

    monkeypatch.setattr(embedded, "write_idda", writer("IDDAsmall", "IDDAsmall"))
    monkeypatch.setattr(embedded, "write_cityscapes", writer("leftImg8bit", "gtFine"))
    return calls


def tool(name, *arguments):
    """Run a tool in this process; returns its exit code."""
    argv, sys.argv = sys.argv, [name, *map(str, arguments)]
    try:
        runpy.run_path(str(REPOSITORY / "tools" / name), run_name="__main__")
    except SystemExit as end:
        return end.code
    finally:
        sys.argv = argv


def failure(capsys, name, *arguments):
    """The message of a tool that must fail for a mistake of the user's."""
    assert tool(name, *arguments) == 2
    return capsys.readouterr().err


def test_idda_embedded_writes_every_split_and_the_same_bytes_again(tmp_path, rendered, capsys):
    for root in ("one", "two"):
        arguments = ("--root", tmp_path / root, "--embedded", "--images-per-domain", 11)
        assert tool("prepare_idda.py", *arguments, "--setting", "rainy") == 0
        shown = capsys.readouterr().out
        assert "class_imbalance/rainy" in shown and "embedded" in shown
        config = re.search(r"tools/train.py (\S+)", shown)[1]
        assert config == "configs/settings/idda_rainy.py"
    first, second = (snapshot(tmp_path / root / "splits") for root in ("one", "two"))
    first.pop("label_classes.json"), second.pop("label_classes.json")
    assert first == second and len(first) == 3 * 3
    for distribution in idda.DISTRIBUTIONS:
        dataset = IDDADataset(str(tmp_path / "one"), f"splits/{distribution}/rainy/train")
        assert len(dataset) == 69 * 9 and len(set(dataset.users)) == 69
        note = json.loads(first[f"{distribution}/rainy/split.json"])
        assert note["seed"] == 0 and note["embedded"] and note["rule"]
        assert note["train"]["checksum"] == dataset.split_checksum
    # Splits of the images on disk are the same; so another seed needs no rendering.
    arguments = ("--root", tmp_path / "one", "--images-per-domain", 11)
    assert tool("prepare_idda.py", *arguments, "--setting", "rainy") == 0
    again = snapshot(tmp_path / "one" / "splits")
    again.pop("label_classes.json")
    assert again == first
    assert tool("prepare_idda.py", *arguments, "--setting", "bus", "--seed", 1) == 0


def test_limits_cut_the_split_and_what_is_rendered(tmp_path, rendered):
    limits = ("--limit-per-user", 2, "--limit-test", 1, "--size", "32x16")
    assert (
        tool(
            "prepare_idda.py",
            *("--root", tmp_path, "--embedded", "--setting", "country"),
            *("--distribution", "heterogeneous", *limits),
        )
        == 0
    )
    folder = tmp_path / "splits" / "heterogeneous" / "country"
    train, test = read_split(folder / "train"), read_split(folder / "test")
    assert [len(samples) for samples in train.users.values()] == [2] * 90
    assert [len(samples) for samples in test.users.values()] == [14, 90]
    ((files, options),) = rendered
    assert set(files) == {*train.samples, *test.samples} and options == {"size": (32, 16)}
    note = json.loads((folder / "split.json").read_text())
    assert note["limit"] == {"per_user": 2, "test_per_domain": 1}


@needs_published
def test_from_copies_published_files_unchanged_and_counts_what_is_missing(tmp_path, capsys):
    source = SHARED / "feddrive_splits" / "idda"
    message = failure(capsys, "prepare_idda.py", "--root", tmp_path, "--from", source)
    assert f"{2 * 6240} of {2 * 6240} files missing" in message and "12475 more" in message
    copied = snapshot(tmp_path / "splits")
    published = snapshot(source / "data")
    assert {path: copied[path] for path in published} == published
    assert set(copied) - set(published) == {
        f"{d}/{s}/split.json" for d in idda.DISTRIBUTIONS for s in idda.SETTINGS
    }


@needs_published
def test_from_with_embedded_renders_exactly_what_the_files_name(tmp_path, rendered):
    source = SHARED / "feddrive_splits" / "cityscapes" / "data" / "uniform"
    options = ("--distribution", "uniform", "--embedded", "--limit-per-user", 1, "--limit-test", 2)
    assert tool("prepare_cityscapes.py", "--root", tmp_path, "--from", source, *options) == 0
    ((files, _),) = rendered
    assert len(files) == 146 + 3 * 2
    assert all((tmp_path / "gtFine" / label).is_file() for _, label in files)
    note = json.loads((tmp_path / "splits" / "uniform" / "split.json").read_text())
    assert note["source"] == "published files" and note["train"]["clients"] == 146


def test_embedded_with_the_real_renderer(tmp_path):
    make_published(tmp_path / "source" / "uniform" / "bus")
    arguments = ("--root", tmp_path, "--from", tmp_path / "source", "--size", "64x32")
    assert tool("prepare_idda.py", *arguments, "--embedded") == 0
    dataset = IDDADataset(str(tmp_path), "splits/uniform/bus/test", check="full")
    assert dataset[0]["inputs"].shape == (3, 32, 64) and len(dataset) == 2
    # What was rendered is enough: nothing is missing now.
    assert tool("prepare_idda.py", *arguments[:4]) == 0


def make_published(folder, **test_users):
    write_split(folder / "train", Split({"a": [("T01_CN_A/RGB/1.jpg", "T01_CN_A/Semantic/1.png")]}))
    users = test_users or {
        user: [(f"T01_HRN_A/RGB/{user}.jpg", f"T01_HRN_A/Semantic/{user}.png")]
        for user in ("test_user_diff_domain", "test_user_same_domain")
    }
    write_split(folder / "test", Split(users))
    return folder


def test_from_names_the_missing_files(tmp_path, capsys):
    source = make_published(tmp_path / "source" / "uniform" / "bus")
    write_pair(*[tmp_path / "IDDAsmall"] * 2, read_split(source / "train").samples[0])
    (tmp_path / "IDDAsmall" / "T01_CN_A" / "Semantic" / "1.png").unlink()
    message = failure(capsys, "prepare_idda.py", "--root", tmp_path, "--from", tmp_path / "source")
    assert "5 of 6 files missing" in message and "T01_CN_A/Semantic/1.png" in message
    assert "T01_CN_A/RGB/1.jpg" not in message


def test_from_refuses_what_is_no_split_of_this_data_set(tmp_path, capsys):
    base = ("prepare_idda.py", "--root", tmp_path / "root", "--from")
    assert "holds no split" in failure(capsys, *base, tmp_path)
    one = make_published(tmp_path / "one")
    assert "say which it is" in failure(capsys, *base, one)
    which = ("--distribution", "uniform", "--setting", "bus")
    (one / "test" / "clients.json").write_text("{}")
    assert "not a split file" in failure(capsys, *base, one, *which)
    other = make_published(tmp_path / "other", test_user=[("x.jpg", "x.png")])
    assert "no user 'test_user_diff_domain'" in failure(capsys, *base, other, *which)
    both = [("T01_CN_A/RGB/1.jpg", "T01_CN_A/Semantic/1.png")]
    leak = make_published(
        tmp_path / "leak", test_user_diff_domain=both, test_user_same_domain=[("x.jpg", "x.png")]
    )
    assert "trained on by user 'a'" in failure(capsys, *base, leak, *which)
    assert not (tmp_path / "root").exists()


def test_another_split_is_not_overwritten_unasked(tmp_path, rendered, capsys):
    base = ("prepare_idda.py", "--root", tmp_path, "--embedded", "--images-per-domain", 2)
    which = ("--setting", "bus", "--distribution", "uniform")
    assert tool(*base, *which) == 0
    before = snapshot(tmp_path / "splits")
    assert tool(*base, *which) == 0
    count = len(rendered)
    assert "--overwrite" in failure(capsys, *base, *which, "--seed", 1)
    assert len(rendered) == count and snapshot(tmp_path / "splits") == before
    assert tool(*base, *which, "--seed", 1, "--overwrite") == 0
    assert snapshot(tmp_path / "splits") != before


def test_embedded_refuses_a_root_with_real_data(tmp_path, rendered, capsys):
    write_pair(*[tmp_path / "IDDAsmall"] * 2, ("T01_CN_A/RGB/1.jpg", "T01_CN_A/Semantic/1.png"))
    assert "give another --root" in failure(
        capsys, "prepare_idda.py", "--root", tmp_path, "--embedded"
    )
    assert not rendered


def test_options_without_effect_are_refused(tmp_path, capsys):
    base = ("prepare_idda.py", "--root", tmp_path)
    assert "needs --embedded" in failure(capsys, *base, "--size", "32x16")
    assert "leave it out" in failure(capsys, *base, "--from", tmp_path, "--images-per-domain", 3)
    assert "must be 2 to 60" in failure(capsys, *base, "--images-per-domain", 61)
    assert "WIDTHxHEIGHT" in failure(capsys, *base, "--size", "32")
    assert "must be 1 or more" in failure(capsys, *base, "--limit-test", 0)


def test_idda_verification_reports_everything_at_once(tmp_path, capsys):
    assert "does not exist" in failure(capsys, "prepare_idda.py", "--root", tmp_path)
    base = tmp_path / "IDDAsmall"
    for samples in idda.names(2).values():
        for sample in samples:
            write_pair(base, base, sample)
    assert len(idda.verify(tmp_path, 2)) == 104
    (base / "T01_CN_A/Semantic/1_T01_CN_A.png").unlink()
    (base / "T02_CN_A/RGB/1_T02_CN_A.jpg").unlink()
    cut = base / "T03_CN_A/RGB/2_T03_CN_A.jpg"
    cut.write_bytes(cut.read_bytes()[:-40])
    (base / "T03_CN_B/Semantic/2_T03_CN_B.png").write_text("no image")
    write_pair(base, tmp_path / "aside", idda.names(2)["T04_CN_A"][0], size=(20, 8))
    shutil.rmtree(base / "T05_CN_A")
    with pytest.raises(DataError) as error:
        idda.verify(tmp_path, 2)
    for line in (
        "1 domains missing: T05_CN_A",
        "1 images without a label: T01_CN_A/RGB/1_T01_CN_A.jpg",
        "1 labels without an image: T02_CN_A/Semantic/1_T02_CN_A.png",
        "2 domains with another number of pairs: T01_CN_A (1), T02_CN_A (1)",
        "2 unreadable or truncated files: T03_CN_A/RGB/2_T03_CN_A.jpg, T03_CN_B/Semantic",
        "1 labels of another size than their image: T04_CN_A/Semantic/1_T04_CN_A.png",
    ):
        assert line in str(error.value)


def test_cityscapes_verification_and_split(tmp_path, monkeypatch, capsys):
    assert "leftImg8bit_trainvaltest.zip" in failure(
        capsys, "prepare_cityscapes.py", "--root", tmp_path
    )
    monkeypatch.setattr(cityscapes, "CITYSCAPES_TRAIN", {"aachen": 17, "ulm": 8})
    monkeypatch.setattr(cityscapes, "CITYSCAPES_VAL", {"lindau": 2})
    for part in cityscapes.names():
        for samples in part.values():
            for sample in samples:
                write_pair(tmp_path / "leftImg8bit", tmp_path / "gtFine", sample)
    arguments = ("--root", tmp_path, "--distribution", "heterogeneous")
    assert tool("prepare_cityscapes.py", *arguments) == 0
    train = read_split(tmp_path / "splits" / "heterogeneous" / "train")
    assert list(train.users)[7:9] == ["aachen7", "ulm0"] and len(train) == 16 + 8
    removed = next((tmp_path / "leftImg8bit" / "train" / "ulm").iterdir())
    removed.unlink()
    message = failure(capsys, "prepare_cityscapes.py", *arguments)
    assert "train/ulm (7 instead of 8)" in message and "1 labels without an image" in message


CAMVID_FRAMES = {
    ("train", "0001TP"): [f"0001TP_{6690 + 30 * i:06d}" for i in range(62)],
    ("train", "0006R0"): [f"0006R0_f{930 + 30 * i:05d}" for i in range(101)],
    ("train", "0016E5"): [
        f"0016E5_{start + 30 * i:05d}"
        for start, count in ((390, 68), (4350, 120), (8190, 16))
        for i in range(count)
    ],
    ("val", "0016E5"): [f"0016E5_{7959 + 2 * i:05d}" for i in range(101)],
    ("test", "0001TP"): [f"0001TP_{8550 + 30 * i:06d}" for i in range(62)],
    ("test", "Seq05VD"): [f"Seq05VD_f{30 * i:05d}" for i in range(171)],
}


def make_camvid(root):
    for (part, _), stems in CAMVID_FRAMES.items():
        for stem in stems:
            write_pair(root, root, (f"{part}/{stem}.png", f"{part}annot/{stem}.png"), ids=(3, 11))
    return root


def check_camvid(root):
    train = CamVidDataset(str(root), "splits/train")
    assert len(train) == 285 and set(train.domains) == {"0006R0", "0016E5"}
    split = read_split(root / "splits" / "train", root)
    assert [len(s) for s in split.users.values()] == [21, 20, 20, 20, 23, 23, 22, *[20] * 6, 16]
    for samples in split.users.values():
        frames = [int(Path(x).stem.split("_")[1].strip("f")) for x, _ in samples]
        assert frames == sorted(frames) and frames[-1] - frames[0] < 32 * len(frames)
    test = read_split(root / "splits" / "test", root)
    assert {user: len(s) for user, s in test.users.items()} == {
        "test_user_same_domain": 121,
        "test_user_0001TP": 124,
        "test_user_Seq05VD": 171,
    }
    assert {camvid.recording_of(x) for x, _ in test.users["test_user_0001TP"]} == {"0001TP"}
    assert not set(train.files) & set(CamVidDataset(str(root), "splits/test").files)
    # Nothing of the held-out stretch of 0006R0 lies between two training frames.
    held = [x for x, _ in test.users["test_user_same_domain"] if "0006R0" in x]
    assert len(held) == 20 and min(held) > max(x for x, _ in split.users["0006R0_3"])


def test_camvid_is_copied_verified_and_split(tmp_path, capsys):
    source = make_camvid(tmp_path / "source")
    root = tmp_path / "root"
    assert "--source" in failure(capsys, "prepare_camvid.py", "--root", root)
    assert "no folder train" in failure(
        capsys, "prepare_camvid.py", "--root", root, "--source", tmp_path
    )
    assert tool("prepare_camvid.py", "--root", root, "--source", source) == 0
    check_camvid(root)
    before = snapshot(root / "splits")
    assert tool("prepare_camvid.py", "--root", root) == 0
    assert snapshot(root / "splits") == before
    (root / "val" / "0016E5_07959.png").unlink()
    assert "val/0016E5 (100 instead of 101)" in failure(capsys, "prepare_camvid.py", "--root", root)


@pytest.mark.skipif(not (SHARED / "camvid").is_dir(), reason="needs CamVid, ../shared/data/camvid")
def test_camvid_real(tmp_path):
    assert tool("prepare_camvid.py", "--root", tmp_path, "--source", SHARED / "camvid") == 0
    check_camvid(tmp_path)


def test_classes_present_are_kept_until_a_label_changes(tmp_path):
    samples = [("1.jpg", "1.png"), ("2.jpg", "2.png")]
    write_pair(tmp_path, tmp_path, samples[0], ids=(7, 20))
    write_pair(tmp_path, tmp_path, samples[1], ids=(6, 3, 40))
    cache = tmp_path / "splits" / "label_classes.json"

    def classes():
        found = classes_present(tmp_path, ["1.png", "2.png"], IDDADataset.label_ids, cache)
        return [[IDDADataset.classes[c] for c in row.nonzero()[0]] for row in found]

    assert classes() == [["road", "sky"], ["road"]]
    kept = json.loads(cache.read_text())
    kept["1.png"][1] = [8]
    cache.write_text(json.dumps(kept))
    assert classes() == [["sidewalk"], ["road"]]
    write_pair(tmp_path, tmp_path, samples[0], ids=(7, 20, 16, 4))
    assert classes() == [["road", "sky", "person", "bicycle"], ["road"]]
    cache.write_text("{")
    assert classes()[1] == ["road"]


def test_a_tool_prints_a_mistake_without_traceback(tmp_path):
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "tools" / "prepare_camvid.py"), "--root", "none"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: none/train: does not exist")
    assert "Traceback" not in done.stderr and not done.stdout


def test_run_exit_codes(capsys):
    def interrupted():
        raise KeyboardInterrupt

    def broken():
        raise ZeroDivisionError

    for main, code in ((lambda: None, 0), (lambda: 3, 3), (interrupted, 130)):
        with pytest.raises(SystemExit) as end:
            run(main)
        assert end.value.code == code
    with pytest.raises(ZeroDivisionError):
        run(broken)
