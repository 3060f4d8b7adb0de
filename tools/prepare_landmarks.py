"""Verify Landmarks-User-160k: split files and images."""

import argparse
from pathlib import Path

from rich.console import Console

from data_prep.landmarks import SOURCES, verify
from fedseg.cli import python, run
from fedseg.datasets.landmarks import LandmarksDataset
from fedseg.partition import NaturalPartition
from fedseg.report.partition_charts import draw_partition, partition_statistics, print_statistics

EPILOG = f"""\
Expected below the root: federated_train.csv and test.csv (or mini_gld_train_split.csv and
mini_gld_test.csv, the 23k images of gld23k), and images/<id>.jpg or images/a/b/c/<id>.jpg.
{SOURCES}.

example:
  python tools/prepare_landmarks.py --missing missing.txt

Nothing is converted. A picture of who holds what goes to ROOT/splits/natural_users.png."""


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arguments.add_argument(
        "--root",
        type=Path,
        default=Path("data/landmarks"),
        help="the data root (default: %(default)s)",
    )
    arguments.add_argument(
        "--images", type=Path, default=Path("images"), metavar="DIR", help="below the root, or not"
    )
    arguments.add_argument("--train", type=Path, metavar="CSV", help="another training file")
    arguments.add_argument("--test", type=Path, metavar="CSV", help="another test file")
    arguments.add_argument(
        "--unofficial",
        action="store_true",
        help="accept other numbers of users, images and classes than the published ones",
    )
    arguments.add_argument(
        "--decode", action="store_true", help="decode every image, which takes its time"
    )
    arguments.add_argument(
        "--missing", type=Path, metavar="FILE", help="write the names of missing images to FILE"
    )
    args = arguments.parse_args()
    found = verify(
        args.root, args.images, args.train, args.test, args.unofficial, args.decode, args.missing
    )
    classes = 1 + max(photo.label for photos in found.photos.values() for photo in photos)
    dataset = LandmarksDataset(
        args.root, annotations=args.train, image_root=args.images, num_classes=classes
    )
    clients = NaturalPartition("users")(dataset)
    console = Console(soft_wrap=True, highlight=False)
    console.print(
        f"{args.root}: verified: {len(found.photos['train'])} + {len(found.photos['test'])} images "
        f"of {classes} classes, {len(clients)} users, none in both splits"
    )
    names = dataset.metainfo["classes"]
    statistics = partition_statistics(clients, dataset.labels, classes)
    print_statistics(statistics, title="natural_users", console=console)
    picture = args.root / "splits" / "natural_users.png"
    draw_partition(clients, dataset.labels, names, picture, title="natural_users")
    console.print(f"Next: {python()} tools/train.py configs/settings/landmarks.py --dry-run")


if __name__ == "__main__":
    run(main)
