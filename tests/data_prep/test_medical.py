"""Medical images of several sites: masks, slices of volumes, sites and patients kept apart."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedseg.datasets import FundusDataset, PolypsDataset, ProstateDataset
from fedseg.errors import DataError
from fedseg.partition import read_split
from fedseg.runner.experiment import load_config

nibabel = pytest.importorskip("nibabel")


def save(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def test_fundus_masks_are_thresholded_and_must_be_gray(tmp_path):
    values = np.array([[0, 50, 51], [128, 200, 201], [255, 1, 255]], np.uint8)
    expected = [[2, 2, 1], [1, 1, 0], [0, 2, 0]]
    for name, pixels in (("gray", values), ("channels", np.stack([values] * 3, 2))):
        save(tmp_path / f"{name}.png", pixels)
        assert FundusDataset.read_label(str(tmp_path / f"{name}.png")).tolist() == expected
    save(tmp_path / "colors.png", np.stack([values, values, 0 * values], 2))
    with pytest.raises(DataError, match=r"colors.png: a mask must be gray"):
        FundusDataset.read_label(str(tmp_path / "colors.png"))


def test_drawn_fundus_photographs_and_the_unseen_site(tmp_path, prepare):
    root = tmp_path / "fundus"
    shown = prepare("fundus", "--root", root, "--synthetic", "--size", 32)
    assert "fedseg train demo_fundus" in shown and "Domain4 (56)" in shown
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    prepare("fundus", "--root", root, "--synthetic", "--size", 32)
    assert before == {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert "--size: is the size of drawn" in prepare.fails("fundus", "--root", root, "--size", 32)
    error = prepare.fails("fundus", "--root", root, "--synthetic", "--size", 64)
    assert "has other photographs" in error
    assert {user: len(held) for user, held in read_split(root / "splits/train").users.items()} == {
        f"Domain{number}": 40 for number in range(1, 5)
    }
    options = load_config("fundus_unseen_4").val_dataloader.unseen.dataset
    unseen = FundusDataset(str(root), options.split, domains=options.domains)
    assert set(unseen.domains) == {"Domain4"} and len(unseen) == 56  # both of its parts
    seen = FundusDataset(str(root), "splits/test", domains=["Domain1", "Domain2", "Domain3"])
    assert len(seen) == 48 and seen.split_checksum != unseen.split_checksum
    image, label = seen.read(0)
    assert image.shape == (32, 32, 3) and set(np.unique(label)) == {0, 1, 2}


def test_polyps(tmp_path, prepare):
    for name in ("Kvasir", "ETIS-LaribPolypDB"):
        for number in range(5):
            mask = np.full((8, 8), 120, np.uint8)
            mask[:2, number:] = 140
            save(tmp_path / name / "masks" / f"{number}.png", mask)
            save(tmp_path / name / "images" / f"{number}.png", np.stack([mask + number] * 3, 2))
    assert "2188 are published" in prepare.fails("polyps", tmp_path)
    prepare("polyps", tmp_path, "--unofficial")
    train, test = (read_split(tmp_path / "splits" / part).users for part in ("train", "test"))
    assert {user: len(held) for user, held in train.items()} == {
        "ETIS-LaribPolypDB": 4,
        "Kvasir": 4,
    }
    assert len(test["seen"]) == 2
    _, label = PolypsDataset(str(tmp_path), "splits/train").read(0)
    assert set(np.unique(label)) == {0, 1}


def write_volume(folder: Path, number: int, values: np.ndarray, labels: np.ndarray) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"Case{number:02d}"
    nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), folder / f"{stem}.nii.gz")
    suffix = "Segmentation" if folder.name == "BMC" else "segmentation"
    nibabel.save(nibabel.Nifti1Image(labels, np.eye(4)), folder / f"{stem}_{suffix}.nii.gz")


def write_volumes(root: Path, count: int) -> None:
    """Volumes of four slices, of which the second and the third have prostate."""
    for site in ("RUNMC", "BMC", "I2CVB", "UCL", "BIDMC", "HK"):
        for number in range(count):
            values = np.random.default_rng(number).integers(0, 500, (6, 5, 4)).astype(np.int16)
            labels = np.zeros((6, 5, 4), np.uint8)
            labels[1:3, 1:3, 1] = 2  # a zone
            labels[2, 2, 2] = 1
            write_volume(root / site, number, values, labels)


def test_prostate_slices_are_split_by_patient(tmp_path, prepare):
    source, root = tmp_path / "volumes", tmp_path / "prostate"
    write_volumes(source, 7)
    command = ("prostate", "--root", root, "--source", source)
    assert "30 are published" in prepare.fails(*command)
    prepare(*command, "--unofficial")
    train = ProstateDataset(str(root), "splits/train")
    test = ProstateDataset(str(root), "splits/test")
    assert not {*train.cases} & {*test.cases}
    assert len({case for case in test.cases if case.startswith("HK")}) == 3
    assert len(train) + len(test) == 6 * 7 * 2
    image, label = train.read(0)
    values = np.asarray(nibabel.load(source / f"{train.cases[0]}.nii.gz").dataobj, np.float32)
    high = np.quantile(values, 0.99)
    scaled = np.round(255 * np.clip((values - values.min()) / (high - values.min()), 0, 1))
    assert (image == scaled[..., [0, 1, 2]]).all()  # the slice before, the slice, the one after
    assert label.sum() == 4 and set(np.unique(label)) == {0, 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "Case00_segmentation.nii.gz").unlink(), "has no Case00_segmen"),
        (lambda folder: (folder / "Case00.nii.gz").write_bytes(b"x"), "is no whole NIfTI file"),
        (
            lambda folder: write_volume(
                folder, 0, np.zeros((6, 5, 4), np.int16), np.zeros((6, 5, 3), np.uint8)
            ),
            "is (6, 5, 3), its volume (6, 5, 4)",
        ),
        (
            lambda folder: write_volume(
                folder, 0, np.zeros((6, 5, 4), np.int16), np.zeros((6, 5, 4), np.uint8)
            ),
            "has no voxel of the prostate",
        ),
    ],
)
def test_volumes_that_are_refused(tmp_path, prepare, change, message):
    write_volumes(tmp_path, 7)
    change(tmp_path / "HK")
    error = prepare.fails("prostate", "--root", tmp_path, "--unofficial")
    assert message in error and "Case00" in error
