"""Streets for the demos: IDDA in its rainy setting (hard rain is unseen), few synthetic images."""

from pathlib import Path

from . import idda
from .segmentation import Options, prepare

SETTING, DISTRIBUTION = "rainy", "heterogeneous"
IMAGES_PER_CLIENT = 8  # of each of the 69 clients
TEST_IMAGES_PER_DOMAIN = 1  # of each of the 69 seen and 35 unseen domains
IMAGE_SIZE = (232, 128)  # width, height in pixels
FOLDER = Path("data/demo_weather")
# what configs/settings/demo_towns_centralized.py has trained, as an override of a config
START = ("model.weights.path=tools/demo_towns.pth",)


def prepare_demo_streets(root: Path = FOLDER) -> None:
    """Render what is not there yet into the demos' own folder, and write the split."""
    options = Options(
        root,
        places=[(DISTRIBUTION, SETTING)],
        synthetic=True,
        size=IMAGE_SIZE,
        limit_per_user=IMAGES_PER_CLIENT,
        limit_test=TEST_IMAGES_PER_DOMAIN,
        overwrite=True,  # of splits: the folder is the demo's own
        named=(True, True),
    )
    prepare(idda, options)
