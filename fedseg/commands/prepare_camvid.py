"""Verify CamVid and write its federated split."""

from pathlib import Path

from fedseg.data_prep.arguments import parse, parser

EPILOG = """\
CamVid is expected as the SegNet tutorial ships it: train, val and test with images, and trainannot,
valannot and testannot with label ids.

example:
  fedseg prepare camvid --source path/to/CamVid

The split goes to ROOT/splits/{train,test}; split.json next to them says how it was made."""


def main() -> None:
    arguments = parser(__doc__, EPILOG, "data/camvid")
    arguments.add_argument(
        "--source", type=Path, metavar="DIR", help="copy CamVid from DIR to the root first"
    )
    args = parse(arguments, "CamVid (train, trainannot, val, ...)")
    from fedseg.data_prep.segmentation import prepare_camvid, show_summary

    show_summary(prepare_camvid(args.root, args.source, args.overwrite), args.root)
