"""Label maps of any layout, and published layouts: ``fedseg prepare segmentation``."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Gt

from fedseg.names import OTHER_TOOLS, PIXEL_PARTITIONS, PUBLISHED

from .arguments import (
    NonNegativeInt,
    PositiveInt,
    add_member_argument,
    add_overwrite_argument,
    check_exists,
)
from .outcome import Outcome

PURPOSE = "Check images and label maps of any layout, and write a federated split and a config."
DETAILS = f"""\
--images and --labels are templates of paths: a field such as {{name}} matches a part of one path
component, the same in an image and its label map; {{domain}} is the image's domain, {{ending}} jpg,
jpeg or png. Label maps are PNG with ids, or polygons of labelme or Cityscapes (.json), which are
rasterized into ROOT/drawn. Prints a summary, and writes ROOT/splits and a training config in ROOT.

examples:
  three clients from labelme's folders (labels.txt: a class per line):
    fedseg prepare segmentation data/voc_like --images 'JPEGImages/{{name}}.jpg' \\
        --labels 'SegmentationClass/{{name}}.png' --classes labels.txt --clients 3
  a client per site; the site north and a tenth of the other images for tests:
    fedseg prepare segmentation data/orchards --images '{{domain}}/images/{{name}}.png' \\
        --labels '{{domain}}/labels/{{name}}.png' --classes classes.txt --test north 0.1
  annotations of COCO, drawn and copied into data/pets:
    fedseg prepare segmentation data/pets --from coco --labels export/annotations.json \\
        --images export/images --clients 3
  published data sets ({", ".join(PUBLISHED)}):
    fedseg prepare acdc"""
FIX = "name the folder with the images, or give --from"
# fundus photographs have a command of their own
MEMBERS = ("segmentation", *(name for name in PUBLISHED if name != "fundus"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "root",
        nargs="?",
        type=Path,
        metavar="ROOT",
        help="the data root (default: data/DATASET)",
    )
    add_member_argument(parser, MEMBERS)
    parser.add_argument(
        "--images",
        metavar="TEMPLATE",
        help="paths of images below ROOT with fields in braces; with --from their folder",
    )
    parser.add_argument(
        "--labels",
        metavar="TEMPLATE",
        help="paths of label maps or polygons, with fields of --images; with --from the JSON file "
        "of COCO or the folder of CVAT",
    )
    parser.add_argument(
        "--from",
        dest="source",
        choices=OTHER_TOOLS,
        help="first convert annotations of this tool: images, label maps and classes are written "
        "into ROOT",
    )
    parser.add_argument(
        "--classes",
        type=Path,
        metavar="FILE",
        help="class names in the order of their ids: NAME per line, or NAME,R,G,B with the color "
        "of pictures",
    )
    parser.add_argument(
        "--ignore",
        action="extend",
        nargs="+",
        metavar="LABEL",
        help="polygon labels to ignore",
    )
    parser.add_argument(
        "--test",
        action="extend",
        nargs="+",
        metavar="TEST",
        help="test images: a share of each domain, a domain, a template of images, or a .txt file "
        "with names; can be repeated (default: 0.2, also beside domains; 0: no share)",
    )
    parser.add_argument(
        "--clients",
        type=int,
        metavar="K",
        help="number (default: a client per domain)",
    )
    parser.add_argument(
        "--partition",
        choices=PIXEL_PARTITIONS,
        help="domain: a client is a domain; uniform: random; dirichlet: class mixes of pixels by "
        "Dir(alpha); size: sizes by Dir(alpha) (default: uniform, or domain without --clients)",
    )
    parser.add_argument(
        "--alpha",
        type=float,
        metavar="A",
        help="of dirichlet and size (default: 1)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="of the split (default: %(default)s)",
    )
    parser.add_argument(
        "--unofficial",
        action="store_true",
        help="published layouts: accept other numbers of images",
    )
    add_overwrite_argument(parser)


def prepare(
    root: Path | None = None,
    *,
    dataset: Literal[MEMBERS] = "segmentation",
    images: str | None = None,
    labels: str | None = None,
    source: Literal[OTHER_TOOLS] | None = None,
    classes: Path | None = None,
    ignore: Sequence[str] | None = None,
    test: Sequence[str] | None = None,
    clients: PositiveInt | None = None,
    partition: Literal[PIXEL_PARTITIONS] | None = None,
    alpha: Annotated[float, Gt(0)] | None = None,
    seed: NonNegativeInt = 0,
    unofficial: bool = False,
    overwrite: bool = False,
) -> Outcome:
    """Check images and label maps of a folder, and write a split and, of own images, a config."""
    root = root or Path("data", dataset)
    if source is None:
        check_exists(root, FIX)
    from .folders import FolderOptions, prepare_folder

    options = FolderOptions(
        images=images,
        labels=labels,
        source=source,
        classes=classes,
        ignore=ignore,
        test=test,
        clients=clients,
        partition=partition,
        alpha=alpha,
        seed=seed,
        unofficial=unofficial,
        overwrite=overwrite,
    )
    return prepare_folder(None if dataset == "segmentation" else dataset, root, options)
