"""Streets for the demos: IDDA in its rainy setting (hard rain is unseen), few synthetic images."""

from pathlib import Path

from .segmentation import prepare_streets
from .segmentation_sets import IDDA, IddaOptions

FOLDER = Path("data/demo_weather")


def prepare_demo_streets(root: Path = FOLDER) -> None:
    """Render what is not there yet into the demos' own folder, and write the split."""
    prepare_streets(
        IDDA,
        root,
        IddaOptions(
            distribution=["heterogeneous"],
            setting=["rainy"],
            synthetic=True,
            size=(232, 128),  # width, height in pixels
            limit_per_user=8,
            limit_test=1,  # of each of the 69 seen and 35 unseen domains
            overwrite=True,  # of splits: the folder is the demo's own
        ),
    )
