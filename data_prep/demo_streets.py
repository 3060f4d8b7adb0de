"""Streets for the demos: IDDA in its rainy setting (hard rain is unseen), few synthetic images."""

from pathlib import Path

from . import idda
from .segmentation import Options, prepare

SETTING, DISTRIBUTION = "rainy", "heterogeneous"
IMAGES_PER_CLIENT = 8  # of each of the 69 clients
TEST_IMAGES_PER_DOMAIN = 1  # of each of the 69 seen and 35 unseen domains


def prepare_demo_streets(root: Path, size: tuple[int, int]) -> None:
    """Render what is not there yet into a demo's own folder, and write the split.

    ``size`` is (width, height) of an image in pixels.
    """
    options = Options(
        root,
        places=[(DISTRIBUTION, SETTING)],
        synthetic=True,
        size=size,
        limit_per_user=IMAGES_PER_CLIENT,
        limit_test=TEST_IMAGES_PER_DOMAIN,
        overwrite=True,  # of splits: the folder is the demo's own
    )
    prepare(idda, options)
