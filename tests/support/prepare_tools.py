"""``fedseg prepare`` run in this process, and small pairs of image and label map for it."""

import sys
from dataclasses import replace

import cv2
import numpy as np

from fedseg.commands.main import run
from fedseg.core.seeds import generator_for
from fedseg.data_prep import idda


def tool(name, *arguments):
    """Run ``fedseg prepare NAME ARGUMENTS``; returns its exit code."""
    before, sys.argv = sys.argv, ["fedseg", "prepare", name, *map(str, arguments)]
    try:
        run()
    except SystemExit as end:
        return end.code
    finally:
        sys.argv = before


def use_fewer(patch, count):
    """Let IDDA have so many photographs in each domain; returns what is published then."""
    folders = {"": dict.fromkeys(idda.IDDA.folders[""], count)}
    patch.setattr(idda, "IDDA", replace(idda.IDDA, folders=folders))
    return idda.IDDA


def snapshot(folder, leaving=(".png", "label_classes.json")):
    """Every file below a folder but charts and caches: relative path -> bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(leaving)
    }


def write_pair(image_root, label_root, sample, ids=(7, 13), size=(16, 8)):
    """A gray image and a label map whose columns cycle through raw ids."""
    image, label = image_root / sample[0], label_root / sample[1]
    image.parent.mkdir(parents=True, exist_ok=True)
    label.parent.mkdir(parents=True, exist_ok=True)
    width, height = size
    row = np.array([ids[i % len(ids)] for i in range(width)], dtype=np.uint8)
    cv2.imwrite(str(image), np.full((height, width, 3), 99, np.uint8))
    cv2.imwrite(str(label), np.tile(row, (height, 1)))


def presence(frequencies, seed=0):
    """A presence function: class c occurs in an image with probability ``frequencies[c]``."""

    def classes(samples):
        rng = generator_for(seed, "fake presence")
        return rng.random((len(samples), len(frequencies))) < np.asarray(frequencies)

    return classes


def sizes(split):
    return [len(samples) for samples in split.users.values()]
