"""Make or verify CIFAR-10-C or CIFAR-100-C next to a prepared test set."""

from pathlib import Path

from fedseg import cli
from fedseg.names import CORRUPTIONS, FOLDER

EPILOG = """\
ROOT is a folder that fedseg prepare cifar has written. Official files (<corruption>.npy and
labels.npy) in ROOT/corrupted are verified; missing ones are made from the test set.

examples:
  all 19 corruptions of CIFAR-10 (2.9 GB):
    fedseg prepare cifar-c data/cifar10
  a quick look at two of them:
    fedseg prepare cifar-c data/cifar10 --corruptions fog frost --limit 500 --folder look

It can be interrupted, and continues where it stopped. contact_sheet.png next to the files shows one
image under each of them."""


def main() -> None:
    arguments = cli.parser(__doc__, EPILOG)
    arguments.add_argument(
        "root",
        type=Path,
        nargs="?",
        default=Path("data/cifar10"),
        metavar="ROOT",
        help="the prepared folder (default: %(default)s)",
    )
    arguments.add_argument(
        "--folder", default=FOLDER, help="for the files, in ROOT (default: %(default)s)"
    )
    arguments.add_argument(
        "--corruptions",
        action="extend",
        nargs="+",
        type=str.lower,
        choices=CORRUPTIONS,
        metavar="NAME",
        help=f"which: {', '.join(CORRUPTIONS)} (default: all)",
    )
    arguments.add_argument(
        "--limit",
        type=int,
        metavar="N",
        help="corrupt N test images, of each class its share; not for published results",
    )
    arguments.add_argument("--seed", type=int, default=0, help="of the noise (default: 0)")
    arguments.add_argument(
        "--workers", type=int, metavar="N", help="processes (default: all cores)"
    )
    args = arguments.parse_args()
    cli.check_there([args.root], "make it with fedseg prepare cifar")
    from fedseg.data_prep.corrupted_sets import make_corrupted
    from fedseg.datasets.corrupted import CorruptedImages

    outcome = make_corrupted(
        args.root, args.folder, args.corruptions, args.limit, args.seed, args.workers
    )
    if outcome.replaced:
        print(
            f"{len(outcome.replaced)} files of an earlier run had been made from other images or "
            "with other options; they were deleted"
        )
    for names, what in (
        (outcome.official, "official, verified"),
        (outcome.kept, "made earlier, verified"),
        (outcome.made, "made"),
    ):
        if names:
            print(f"{len(names)} {what}: {', '.join(names)}")
    print(f"{outcome.folder}: 5 severities of {outcome.images} images each")
    from fedseg.report.corruptions import draw_contact_sheet  # the processes above need no charts
    from fedseg.report.drawing import save_figure

    dataset = CorruptedImages(args.root, args.folder, args.corruptions)
    print(save_figure(draw_contact_sheet(dataset), outcome.folder / "contact_sheet.png"))
    if dataset.generated:
        print(
            "Images that were made here have their own noise, and frost is drawn: for published "
            "results use the official files."
        )
