"""Demo: python tools/demo_cifar.py. Trains configs/demo_cifar.py on CIFAR-10 or synthetic shapes.

CIFAR-10 is used if it is in data/cifar10 (see tools/prepare_cifar.py). The demo ends with the
accuracy on clean and on corrupted test images, and charts, after minutes on two CPU cores. Stopped
(Ctrl-C) and started again, it continues.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from fedseg import cli
from fedseg.errors import ConfigError
from fedseg.names import SHAPES

ROOT = Path(__file__).resolve().parents[1]
CONFIG = Path("configs/demo_cifar.py")
WORK_DIR = Path("work_dirs/demo_cifar")
REAL_CONFIG = Path("configs/cifar10_a005_fedasam_swa.py")  # the published experiment
CIFAR = Path("data/cifar10")

IMAGES_PER_CLIENT = 200
# photos are harder than rendered shapes: clients with more of them, and smaller steps
PHOTOS_PER_CLIENT = 400
FOR_PHOTOS = {
    "train_dataloader.batch_size": 32,
    "optim_wrapper.optimizer.lr": 0.03,
    "algorithm.server_optim.momentum": 0.5,
}
CORRUPTED_IMAGES = 200  # of the test set, each 19 corruptions x 5 severities


def prepare_data(source: Path | None, synthetic: bool) -> Path:
    """The prepared folder: of CIFAR-10 if it is there, else of synthetic shapes."""

    from fedseg.data_prep.classification import prepare
    from fedseg.data_prep.image_files import find_images
    from fedseg.data_prep.image_sets import CIFAR10
    from fedseg.datasets.arrays import INDEX, is_synthetic

    if synthetic and source is not None:
        raise ConfigError("--synthetic: renders images, leave out --data")
    if source is not None and (source / INDEX).is_file():
        return source
    there = (CIFAR / INDEX).is_file() and not is_synthetic(CIFAR)
    if not synthetic and (source or there or find_images(CIFAR10, CIFAR)):
        prepare(CIFAR10, CIFAR, source=source)
        return CIFAR
    prepare(CIFAR10, Path(SHAPES), synthetic=True)
    return Path(SHAPES)


def use_data(config: Any, root: Path) -> None:
    """Point a config to a prepared folder, with clients of as many images as suits its kind."""
    from fedseg.datasets.arrays import StoredImages

    kind, per_client = "SyntheticShapesDataset", IMAGES_PER_CLIENT
    if root != Path(SHAPES):
        kind, per_client = "CIFAR10Dataset", PHOTOS_PER_CLIENT
        config.merge_from_dict(FOR_PHOTOS)
    train, val = config.train_dataloader, config.val_dataloader
    train.dataset.update(type=kind, data_root=str(root))
    train.partition.num_clients = max(10, len(StoredImages(root)) // per_client)
    val.test.dataset.update(type=kind, data_root=str(root))
    val.corrupted.dataset.data_root = str(root)
    config.test_dataloader = config.val_dataloader


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split(".", 1)[1].strip())
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="CIFAR-10 as tools/prepare_cifar.py takes it (default: data/cifar10 if it is there)",
    )
    parser.add_argument("--synthetic", action="store_true", help="use synthetic images in any case")
    parser.add_argument("--rounds", type=int, metavar="N", help="another number of rounds")
    parser.add_argument(
        "--work-dir", type=cli.folder, default=WORK_DIR, help="default: %(default)s"
    )
    arguments = parser.parse_args()
    from fedseg.data_prep.corrupted_sets import make_corrupted
    from fedseg.report.summary import print_summary
    from fedseg.runner.config import complete_config
    from fedseg.runner.experiment import load_config, train, unfinished

    source = arguments.data.resolve() if arguments.data else None
    work_dir = arguments.work_dir
    if work_dir != WORK_DIR:
        work_dir = work_dir.resolve()
    os.chdir(ROOT)  # the config's data root is relative to it
    print("images", file=sys.stderr, flush=True)
    root = prepare_data(source, arguments.synthetic)
    config = load_config(CONFIG, work_dir=work_dir)
    use_data(config, root)
    if arguments.rounds:
        config.train_cfg.max_rounds = arguments.rounds
    folder = config.val_dataloader.corrupted.dataset.folder
    text = f"{CORRUPTED_IMAGES} test images under 19 corruptions in {root / folder}"
    print(text, file=sys.stderr, flush=True)
    make_corrupted(root, folder, limit=CORRUPTED_IMAGES)
    config["resume"] = unfinished(complete_config(config))
    again = ", continuing where it stopped" if config.resume else ""
    print(f"training {CONFIG} on {root} in {work_dir}{again}", file=sys.stderr, flush=True)
    train(config)
    print_summary(work_dir, CONFIG, REAL_CONFIG)
    return 0


if __name__ == "__main__":
    cli.run(main)
