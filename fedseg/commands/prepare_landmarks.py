"""Verify Landmarks-User-160k: split files and images."""

from pathlib import Path

from fedseg.data_prep.arguments import parse, parser, print_next
from fedseg.names import LANDMARKS_SOURCES

EPILOG = f"""\
Expected below the root: federated_train.csv and test.csv (or mini_gld_train_split.csv and
mini_gld_test.csv, the 23k images of gld23k), and images/<id>.jpg or images/a/b/c/<id>.jpg.
{LANDMARKS_SOURCES}.

example:
  fedseg prepare landmarks --missing missing.txt

Nothing is converted. A chart of the clients goes to ROOT/splits/natural_users.png."""


def main() -> None:
    arguments = parser(__doc__, EPILOG, "data/landmarks", overwrite=False)
    arguments.add_argument(
        "--images",
        type=Path,
        default=Path("images"),
        metavar="DIR",
        help="folder of the images, absolute or below the root (default: %(default)s)",
    )
    arguments.add_argument(
        "--unofficial",
        action="store_true",
        help="accept other numbers of users, images and classes than the published ones",
    )
    arguments.add_argument(
        "--decode", action="store_true", help="decode every image, which is slow"
    )
    arguments.add_argument(
        "--missing", type=Path, metavar="FILE", help="write the names of missing images to FILE"
    )
    args = parse(arguments, "its split files and images")
    from fedseg.data_prep.landmarks import verify
    from fedseg.datasets.landmarks import LandmarksDataset
    from fedseg.partition import NaturalPartition
    from fedseg.report.partition_charts import show_partition

    photos = verify(args.root, args.images, args.unofficial, args.decode, args.missing)
    classes = 1 + max(photo.label for rows in photos.values() for photo in rows)
    dataset = LandmarksDataset(args.root, image_root=args.images, num_classes=classes)
    clients = NaturalPartition("users")(dataset)
    print(
        f"{args.root}: verified: {len(photos['train'])} + {len(photos['test'])} images "
        f"of {classes} classes, {len(clients)} users, none in both splits"
    )
    names = dataset.metainfo["classes"]
    show_partition(clients, dataset.labels, names, args.root / "splits" / "natural_users.png")
    print_next("landmarks", Path("data/landmarks"), args.root)
