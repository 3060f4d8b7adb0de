"""Demo: python tools/demo_cifar.py. Trains configs/demo_cifar.py, on CIFAR-10 where it is found.

Otherwise on rendered images of shapes and textures. It ends with the accuracy on clean and on
corrupted test images, and pictures, after minutes on two CPU cores. Stopped (Ctrl-C) and started
again, it goes on where it was.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from fedseg import cli
from fedseg.errors import DataError

ROOT = Path(__file__).resolve().parents[1]
CONFIG = Path("configs/demo_cifar.py")
WORK_DIR = Path("work_dirs/demo_cifar")
REAL_CONFIG = Path("configs/cifar10_a005_fedasam_swa.py")  # the published experiment
EMBEDDED = Path("data/demo_shapes")
CIFAR = Path("data/cifar10")
SHARED = Path("../shared/data/unpack_cifar10.py")  # where a lab keeps its copy, if it has one

IMAGES_PER_CLIENT = 200
CORRUPTED_IMAGES = 200  # of the test set, each 19 corruptions x 5 severities


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split(".", 1)[1].strip())
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="CIFAR-10 as tools/prepare_cifar.py takes it (default: data/cifar10 if it is there)",
    )
    parser.add_argument("--embedded", action="store_true", help="rendered images in any case")
    parser.add_argument("--rounds", type=int, metavar="N", help="another number of rounds")
    parser.add_argument("--work-dir", type=Path, default=WORK_DIR, help="default: %(default)s")
    return parser.parse_args()


def prepare_data(given: Path | None, embedded: bool) -> Path:
    """The prepared folder: of CIFAR-10 where it is found, else of rendered images."""
    from data_prep.cifar import image_set
    from data_prep.classification import Options, prepare
    from data_prep.embedded_images import is_written
    from fedseg.datasets.arrays import INDEX

    kind = image_set("cifar10")
    if embedded and given is not None:
        raise DataError("--embedded: renders images, leave out --data")
    if embedded or not (given or (CIFAR / INDEX).is_file() or kind.find(CIFAR) or SHARED.is_file()):
        # the folder is the demo's own: what another version rendered is replaced
        prepare(kind, Options(EMBEDDED, embedded=True, overwrite=not is_written(EMBEDDED)))
        return EMBEDDED
    if given is None and not (CIFAR / INDEX).is_file() and not kind.find(CIFAR):
        with tempfile.TemporaryDirectory() as unpacked:
            command = [sys.executable, str(SHARED), unpacked, "--npz"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            prepare(kind, Options(CIFAR, source=Path(unpacked)))
        return CIFAR
    if given is not None and (given / INDEX).is_file():
        return given
    prepare(kind, Options(CIFAR, source=given))
    return CIFAR


def use_data(config: Any, root: Path) -> None:
    """Point a config to a prepared folder, with clients of ``IMAGES_PER_CLIENT`` images."""
    from fedseg.datasets.arrays import StoredImages

    kind = "EmbeddedImagesDataset" if root == EMBEDDED else "CIFAR10Dataset"
    train, val = config.train_dataloader, config.val_dataloader
    train.dataset.update(type=kind, data_root=str(root))
    train.partition.num_clients = max(10, len(StoredImages(root)) // IMAGES_PER_CLIENT)
    val.test.dataset.update(type=kind, data_root=str(root))
    val.corrupted.dataset.data_root = str(root)
    config.test_dataloader = config.val_dataloader


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    arguments = parse_arguments()
    warnings.filterwarnings("ignore", module="mmcv|mmseg|mmengine")
    from data_prep.corrupted_sets import make_corrupted
    from fedseg.report.summary import print_summary
    from fedseg.runner.experiment import load_config, train, unfinished

    given = arguments.data.resolve() if arguments.data else None
    work_dir = arguments.work_dir
    if work_dir != WORK_DIR:
        work_dir = work_dir.resolve()
    os.chdir(ROOT)  # the config's data root is relative to it
    begin = time.perf_counter()
    say("1/4 images")
    root = prepare_data(given, arguments.embedded)
    config = load_config(CONFIG, work_dir=work_dir)
    use_data(config, root)
    if arguments.rounds:
        config.train_cfg.max_rounds = arguments.rounds
    folder = config.val_dataloader.corrupted.dataset.folder
    say(f"2/4 {CORRUPTED_IMAGES} test images under 19 corruptions in {root / folder}")
    make_corrupted(root, folder, limit=CORRUPTED_IMAGES)
    config["resume"] = unfinished(config)
    again = ", going on where it stopped" if config.resume else ""
    say(f"3/4 training {CONFIG} on {root} in {work_dir}{again}")
    code = train(config)
    if code == 0:
        minutes, seconds = divmod(round(time.perf_counter() - begin), 60)
        say(f"4/4 done after {minutes} min {seconds} s")
        print_summary(work_dir, CONFIG, REAL_CONFIG)
    return code


if __name__ == "__main__":
    cli.run(main)
