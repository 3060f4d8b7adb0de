"""``fedseg prepare fundus``: check the published photographs, or draw others in their place."""

import json
from dataclasses import replace
from pathlib import Path

from fedseg.datasets.arrays import INDEX, is_synthetic
from fedseg.errors import DataError
from fedseg.files import write_text

from .description import Outcome, next_command
from .folders import prepare_folder
from .medical_sets import FundusOptions
from .segmentation_sets import FolderOptions
from .synthetic_fundus import CAMERAS, VERSION, write_fundus

DEMO = Path("data/demo_fundus")
COUNTS = {"train": 40, "test": 16}  # drawn photographs of each site


def prepare(name: str, root: Path, options: FundusOptions) -> Outcome:
    """Write the split of photographs that are there, or of drawn ones.

    Raises:
        DataError: ``--synthetic`` for a folder with real photographs.
    """
    if options.synthetic:
        draw(root, options.size)
    folder_options = FolderOptions(
        unofficial=options.unofficial or is_synthetic(root), overwrite=options.overwrite
    )
    outcome = prepare_folder(name, root, folder_options)
    if is_synthetic(root):
        return replace(outcome, closing=next_command("demo_fundus", DEMO, root))
    return outcome


def draw(root: Path, size: int) -> None:
    """Draw the photographs of four sites that are not there yet; ``size`` in pixels."""
    index = {"dataset": "fundus", "synthetic": True, "renderer_version": VERSION, "size": size}
    text = json.dumps(index, indent=2) + "\n"
    path = root / INDEX
    if any((root / camera).exists() for camera in CAMERAS):
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            raise DataError(f"{root}: has other photographs: name another folder with --root.")
        return
    images = [
        (camera, part, number)
        for camera in CAMERAS
        for part, count in COUNTS.items()
        for number in range(count)
    ]
    write_text(path, text)
    write_fundus(root, images, size)
