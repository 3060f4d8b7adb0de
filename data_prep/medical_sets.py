"""Medical images of several sites: fundus photographs, polyps and prostate MRI."""

from dataclasses import dataclass
from pathlib import Path

from .description import OVERWRITE, DataSet, PositiveInt, option


@dataclass(frozen=True)
class FundusOptions:
    """Where the photographs come from."""

    synthetic: bool = option(
        False,
        action="store_true",
        help="draw photographs as four cameras would show them instead of using real ones",
    )
    size: PositiveInt = option(
        128,
        type=int,
        metavar="N",
        help="height and width of drawn photographs, pixels",
    )
    unofficial: bool = option(
        False,
        action="store_true",
        help="accept another number of photographs than the published one",
    )
    overwrite: bool = option(False, action="store_true", help=OVERWRITE)


@dataclass(frozen=True)
class ProstateOptions:
    """Where the volumes are, and how they are split."""

    source: Path | None = option(
        None,
        type=Path,
        metavar="DIR",
        help="folder with the volumes, <site>/CaseNN.nii.gz (default: the root)",
    )
    unofficial: bool = option(
        False,
        action="store_true",
        help="accept another number of volumes than the published one",
    )
    overwrite: bool = option(False, action="store_true", help=OVERWRITE)


MEDICAL_SETS = (
    DataSet(
        "fundus",
        "fundus photographs of four sites",
        "Check or draw fundus photographs of four sites, and write their split.",
        """\
Expected below the root: Domain1 to Domain4 with {train,test}/ROIs/{image,mask}/<name>.png. A client
is a site.

examples:
  the real photographs in data/fundus:
    fedseg prepare fundus
  drawn ones, no download:
    fedseg prepare fundus --root data/demo_fundus --synthetic

The split is written to ROOT/splits/{train,test}.""",
        FundusOptions,
        "data_prep.fundus:prepare",
        "put Domain1 to Domain4 there",
        {"fundus": "fundus"},
    ),
    DataSet(
        "prostate",
        "prostate MRI of six sites",
        "Cut MRI volumes of the prostate into slices, and write a split by patient.",
        """\
Expected in DIR or the root: RUNMC, BMC, I2CVB, UCL, BIDMC and HK with CaseNN.nii.gz and
CaseNN_segmentation.nii.gz. Needs nibabel (pip install 'fedseg[nifti]').

example:
  fedseg prepare prostate --source path/to/volumes

Slices with prostate are written to ROOT/slices, the split to ROOT/splits/{train,test}.""",
        ProstateOptions,
        "data_prep.prostate:prepare",
        "put the folders of the six sites there",
        {"prostate": "prostate"},
    ),
)
