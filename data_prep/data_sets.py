"""Every data set that ``fedseg prepare`` knows. Nothing slow is imported."""

from .description import DataSet
from .image_sets import IMAGE_SETS
from .medical_sets import MEDICAL_SETS
from .segmentation_sets import SEGMENTATION_SETS

ALL_SETS = (*SEGMENTATION_SETS, *MEDICAL_SETS, *IMAGE_SETS)
DATA_SETS = {data_set.name: data_set for data_set in ALL_SETS}


def owner_of(name: str) -> DataSet:
    """The description of a data set, or of several of which ``name`` is a member."""
    return DATA_SETS.get(name) or next(d for d in DATA_SETS.values() if name in d.members)
