"""CamVid: what must be on disk, and our federated split of it.

CamVid has four recordings, which are its domains. Neighboring frames look alike, so nothing is
shuffled: a client is a contiguous piece of a recording, and what is held out is contiguous too.

:data:`RULE` is the split, with the users ``test_user_same_domain`` (seen), ``test_user_0001TP`` (at
dusk; with the images that the usual split trains on) and ``test_user_Seq05VD``. What is held out
borders on training frames only at the ends of a stretch, 1 s apart.
"""

import filecmp
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from fedseg.datasets import CamVidDataset
from fedseg.errors import DataError
from fedseg.files import atomic_writer, read_bytes
from fedseg.partition import Split

from .disk import Findings, Sample, check_files, find_pairs

Images = dict[str, dict[str, list[Sample]]]

# Folder -> recording -> images.
COUNTS = {
    "train": {"0001TP": 62, "0006R0": 101, "0016E5": 204},
    "val": {"0016E5": 101},
    "test": {"0001TP": 62, "Seq05VD": 171},
}
# of images and of labels; images are published as PNG, and passed on as JPEG too
SUFFIXES = ((".png", ".jpg", ".jpeg", ".PNG", ".JPG", ".JPEG"), ".png")
PUBLISHED_SIZE = (480, 360)  # width and height in pixels
PIECE = 20
HELD_OUT = 20
LONGEST_GAP = 60  # frames, 2 s
RULE = (
    "clients are contiguous pieces of about 20 images of the recordings 0006R0 and 0016E5, cut "
    "where more than 2 s are missing; seen = the 101 validation frames of 0016E5 and the last 20 "
    "frames of 0006R0; unseen = all of 0001TP and all of Seq05VD"
)


def copy_from(source: Path, root: Path, overwrite: bool = False) -> None:
    """Verify CamVid in ``source``, then copy to ``root`` what is not there.

    Raises:
        DataError: ``source`` is not CamVid in the SegNet tutorial's layout; or other files are in
            the way and ``overwrite`` is not given.
    """
    folders = [name for part in COUNTS for name in (part, f"{part}annot")]
    absent = [name for name in folders if not (source / name).is_dir()]
    if absent:
        raise DataError(
            f"{source}: has no folder {absent[0]}: --source must hold {', '.join(folders)} "
            "(the layout of the SegNet tutorial)"
        )
    groups = [group for part in verify(source, Path("/")).values() for group in part.values()]
    names = [name for group in groups for sample in group for name in sample]
    for name in names:
        for suffix in set(SUFFIXES[0]) - {Path(name).suffix}:
            if (twin := (root / name).with_suffix(suffix)).exists():
                raise DataError(f"{twin}: would be there twice, as {name} too: give another --root")
    there = [name for name in names if (root / name).exists()]
    same = {name for name in there if filecmp.cmp(source / name, root / name, shallow=False)}
    if not overwrite and len(same) < len(there):
        first = next(name for name in there if name not in same)
        raise DataError(
            f"{root / first}: is another file than {source / first} ({len(there) - len(same)} "
            "such): give --overwrite to replace them, or another --root"
        )
    for name in names:
        if name not in same:
            with atomic_writer(root / name, "wb") as file:
                file.write(read_bytes(source / name))


def verify(root: Path, within: Path | None = None) -> Images:
    """All 701 images, paired and readable: folder -> recording -> samples in order of frame.

    Symbolic links may lead to places ``within`` a folder, by default ``root``.

    Raises:
        DataError: everything that is missing, unpaired, truncated or of unequal size, counted.
    """
    if not (root / "train").is_dir():
        raise DataError(
            f"{root / 'train'}: does not exist: put CamVid there in the SegNet tutorial's layout "
            "(train, trainannot, val, ...), or name a folder to copy it from with --source"
        )
    findings = Findings(
        f"{root}: not the 367 + 101 + 233 images of CamVid",
        "Take CamVid as the SegNet tutorial ships it (480x360, label ids in *annot/*.png)",
    )
    images: Images = {}
    for part, counts in COUNTS.items():
        images[part] = {recording: [] for recording in counts}
        pairs = find_pairs((root, root), (part, f"{part}annot"), SUFFIXES, findings)
        for image, label in sorted(pairs, key=lambda pair: _frame(pair[0])):
            recording = CamVidDataset.domain_of(image)
            if recording in counts:
                images[part][recording].append((image, label))
            else:
                findings.add("images of another recording", [image])
        findings.add(
            "recordings with another number of pairs",
            (
                f"{part}/{recording} ({len(images[part][recording])} instead of {count})"
                for recording, count in counts.items()
                if len(images[part][recording]) != count
            ),
        )
    samples = [s for part in images.values() for group in part.values() for s in group]
    size = PUBLISHED_SIZE if within is None else None  # told once, of the copy
    check_files(samples, (root, root), within or root, findings, size)
    return images


def build(images: Mapping[str, Mapping[str, Sequence[Sample]]]) -> tuple[Split, Split]:
    """Train and test split; there is no choice in it, so there is no seed.

    Args:
        images: folder -> recording -> samples in order of frame, as :func:`verify` returns them.
    """
    recording = list(images["train"]["0006R0"])
    kept = {"0006R0": recording[:-HELD_OUT], "0016E5": list(images["train"]["0016E5"])}
    clients: dict[str, list[Sample]] = {}
    for name, samples in kept.items():
        pieces = [
            [stretch[i] for i in piece]
            for stretch in _stretches(samples)
            for piece in np.array_split(range(len(stretch)), max(1, round(len(stretch) / PIECE)))
        ]
        clients.update({f"{name}_{number}": piece for number, piece in enumerate(pieces)})
    test = {
        "test_user_same_domain": [*recording[-HELD_OUT:], *images["val"]["0016E5"]],
        "test_user_0001TP": [*images["train"]["0001TP"], *images["test"]["0001TP"]],
        "test_user_Seq05VD": list(images["test"]["Seq05VD"]),
    }
    return Split(clients), Split(test)


def _stretches(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Samples in order of frame, cut where frames are missing for longer than LONGEST_GAP."""
    stretches = [[samples[0]]]
    for before, sample in pairwise(samples):
        if _frame(sample[0])[1] - _frame(before[0])[1] > LONGEST_GAP:
            stretches.append([])
        stretches[-1].append(sample)
    return stretches


def _frame(image: str) -> tuple[str, int]:
    """Recording and frame number of an image path such as ``train/0006R0_f00930.png``."""
    number = re.search(r"(\d+)$", Path(image).stem)
    return CamVidDataset.domain_of(image), int(number.group()) if number else -1
