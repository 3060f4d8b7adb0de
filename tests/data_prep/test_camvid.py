"""CamVid from its source folder to its split, by the tool."""

from pathlib import Path

from prepare_tools import snapshot, write_pair

from fedseg.datasets import CamVidDataset
from fedseg.datasets.templates import fields_of
from fedseg.partition import read_split

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
            jpeg = part == "test" or "0001TP" in stem  # both are passed on, together too
            image = f"{part}/{stem}.{'jpg' if jpeg else 'png'}"
            write_pair(root, root, (image, f"{part}annot/{stem}.png"), ids=(3, 11))
    return root


def check_camvid(root):
    train = CamVidDataset(str(root), "splits/train")
    assert len(train) == 285 and set(train.domains) == {"0006R0", "0016E5"}
    split = read_split(root / "splits" / "train")
    assert [len(s) for s in split.users.values()] == [21, 20, 20, 20, 23, 23, 22, *[20] * 6, 16]
    for samples in split.users.values():
        frames = [int(Path(x).stem.split("_")[1].strip("f")) for x, _ in samples]
        assert frames == sorted(frames) and frames[-1] - frames[0] < 32 * len(frames)
    test = read_split(root / "splits" / "test")
    assert {user: len(s) for user, s in test.users.items()} == {
        "test_user_same_domain": 121,
        "test_user_0001TP": 124,
        "test_user_Seq05VD": 171,
    }
    assert {
        fields_of(CamVidDataset.image_path, x)["domain"] for x, _ in test.users["test_user_0001TP"]
    } == {"0001TP"}
    assert not set(train.files) & set(CamVidDataset(str(root), "splits/test").files)
    # Nothing of the held-out stretch of 0006R0 lies between two training frames.
    held = [x for x, _ in test.users["test_user_same_domain"] if "0006R0" in x]
    assert len(held) == 20 and min(held) > max(x for x, _ in split.users["0006R0_3"])


def test_camvid_is_copied_verified_and_split(tmp_path, prepare):
    source = make_camvid(tmp_path / "source")
    root = tmp_path / "root"
    assert "--source" in prepare.fails("camvid", "--root", root)
    assert "train/0001TP (0 instead of 62)" in prepare.fails(
        "camvid", "--root", root, "--source", tmp_path
    )
    prepare("camvid", "--root", root, "--source", source)
    check_camvid(root)
    before = snapshot(root / "splits")
    prepare("camvid", "--root", root)
    assert snapshot(root / "splits") == before
    (root / "val" / "0016E5_07959.png").unlink()
    assert "1 label maps without an image: valannot/0016E5_07959.png" in prepare.fails(
        "camvid", "--root", root
    )


def test_camvid_is_verified_before_it_is_copied_and_replaces_nothing_unasked(tmp_path, prepare):
    source, root = make_camvid(tmp_path / "source"), tmp_path / "root"
    arguments = ("camvid", "--root", root, "--source", source)
    own = root / "val" / "0016E5_07959.png"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"my own")
    message = prepare.fails(*arguments)
    assert f"{own}: is another file than {source / 'val' / own.name} (1 such)" in message
    assert "--overwrite" in message
    label = source / "valannot" / own.name
    whole = label.read_bytes()
    label.write_bytes(whole[:-20])
    message = prepare.fails(*arguments, "--overwrite")
    assert f"{source}: is not the 367" in message and f"valannot/{own.name}" in message
    assert own.read_bytes() == b"my own"
    assert list(root.rglob("*.png")) == [own]
    label.write_bytes(whole)
    prepare(*arguments, "--overwrite")
    assert own.read_bytes() == (source / "val" / own.name).read_bytes()
    kept = {path: path.stat().st_mtime_ns for path in root.rglob("*.png")}
    prepare(*arguments)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    twin = own.with_suffix(".jpg")
    twin.write_bytes(b"my own")
    assert f"val/{twin.name} and val/{own.name} belong to one label map" in prepare.fails(
        *arguments
    )
    twin.unlink()
    own.unlink()
    own.mkdir()
    assert "Is a directory" in prepare.fails(*arguments, "--overwrite")
