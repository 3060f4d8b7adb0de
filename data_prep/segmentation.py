"""Label maps of any layout, and published layouts: ``fedseg prepare segmentation``."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Lt

from fedseg.errors import ConfigError
from fedseg.names import OTHER_TOOLS, PIXEL_PARTITIONS, PUBLISHED

from .arguments import (
    NonNegativeInt,
    PositiveInt,
    add_member_argument,
    add_overwrite_argument,
    check_exists,
)
from .outcome import Outcome, usual_root

PURPOSE = "Check images and label maps of any layout, and write a federated split and a config."
DETAILS = f"""\
--images and --labels are templates of paths: a field such as {{name}} matches a part of one path
component, the same in an image and its label map; {{domain}} is the image's domain, {{ending}} jpg,
jpeg or png. Label maps are PNG with ids. Prints a summary, and writes ROOT/splits and a training
config in ROOT.

examples:
  three clients from labelme's folders (labels.txt: a class per line):
    fedseg prepare segmentation data/voc_like --images 'JPEGImages/{{name}}.jpg' \\
        --labels 'SegmentationClass/{{name}}.png' --classes labels.txt --clients 3
  a client per site; the site north and a tenth of the other images for tests:
    fedseg prepare segmentation data/orchards --images '{{domain}}/images/{{name}}.png' \\
        --labels '{{domain}}/labels/{{name}}.png' --classes classes.txt \\
        --unseen north --test-share 0.1
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
        help="the data root (default: data/DATASET; of mapillary_a and mapillary_b data/mapillary)",
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
        help="paths of label maps, with fields of --images; with --from the JSON file of COCO, or "
        "the folder of CVAT or labelme",
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
    _add_split_arguments(parser)
    parser.add_argument(
        "--unofficial",
        action="store_true",
        help="published layouts: accept other numbers of images",
    )
    add_overwrite_argument(parser)


def _add_split_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the choice of test images and of clients."""
    parser.add_argument(
        "--test-share",
        type=float,
        metavar="SHARE",
        help="test set seen: the share of each domain's images, at random (default: 0.2; 0: none)",
    )
    parser.add_argument(
        "--unseen",
        action="extend",
        nargs="+",
        metavar="DOMAIN",
        help="test set unseen: all images of these domains",
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


def prepare(
    root: Path | None = None,
    *,
    dataset: Literal[MEMBERS] = "segmentation",
    images: str | None = None,
    labels: str | None = None,
    source: Literal[OTHER_TOOLS] | None = None,
    classes: Path | None = None,
    test_share: Annotated[float, Ge(0), Lt(1)] | None = None,
    unseen: Sequence[str] | None = None,
    clients: PositiveInt | None = None,
    partition: Literal[PIXEL_PARTITIONS] | None = None,
    alpha: Annotated[float, Gt(0)] | None = None,
    seed: NonNegativeInt = 0,
    unofficial: bool = False,
    overwrite: bool = False,
) -> Outcome:
    """Check images and label maps of a folder, and write a split and, of own images, a config.

    Args:
        root: the folder (default: that of :func:`~fedseg.data_prep.outcome.usual_root`).
        dataset: segmentation for own images, or a published data set, which has its own templates
            and classes.
        images: template of the paths of images; with ``source`` their folder.
        labels: template of the paths of label maps; with ``source`` the annotations.
        source: the tool whose annotations are converted first: coco, cvat or labelme.
        classes: file with the names of the classes in the order of their ids.
        test_share: share of each domain that is for tests (default: 0.2; 0: none).
        unseen: domains that are for tests only.
        clients: number of clients (default: a client per domain).
        partition: domain, uniform, dirichlet or size (default: uniform, or domain without
            ``clients``).
        alpha: of dirichlet and size (default: 1).
        seed: of the split.
        unofficial: accept another number of images than the published one.
        overwrite: replace files that differ.
    """
    root = root or usual_root(dataset)
    if source is None:
        check_exists(root, FIX)
    from .folders import import_data, prepare_own, prepare_published
    from .layout_splits import SplitRule

    rule = SplitRule(
        unseen=unseen or (),
        test_share=test_share,
        clients=clients,
        partition=partition,
        alpha=alpha,
        seed=seed,
    )
    if dataset != "segmentation":
        if images or labels or classes or source:
            raise ConfigError(f"--images, --labels, --from, --classes: {dataset} has its own.")
        return prepare_published(dataset, root, rule, unofficial, overwrite)
    if source is not None:
        if classes is not None:
            raise ConfigError(f"--classes: {source} has its own: leave it out.")
        images, labels, classes = import_data(source, root, images, labels, overwrite)
    return prepare_own(root, images, labels, classes, rule, overwrite)
