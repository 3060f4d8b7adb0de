"""Prepare tools run in this process, and small pairs of image and label map for them."""

import runpy
import sys
from pathlib import Path

import cv2
import numpy as np

from fedseg.core.seeds import generator_for

TOOLS = Path(__file__).parents[2] / "tools"


def tool(name, *arguments):
    """Run a tool; returns its exit code."""
    before, sys.argv = sys.argv, [name, *map(str, arguments)]
    try:
        runpy.run_path(str(TOOLS / name), run_name="__main__")
    except SystemExit as end:
        return end.code
    finally:
        sys.argv = before


def good(capsys, name, *arguments):
    """Standard output of a tool that must succeed."""
    code = tool(name, *arguments)
    out, error = capsys.readouterr()
    assert code == 0, error
    return out


def failure(capsys, name, *arguments):
    """The message of a tool that must fail for a mistake of the user's."""
    assert tool(name, *arguments) == 2
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return error[error.index("error: ") :]


def snapshot(folder):
    """Every file below a folder but charts and caches: relative path -> bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".png" and path.name != "label_classes.json"
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
    """Images of each user."""
    return [len(samples) for samples in split.users.values()]
