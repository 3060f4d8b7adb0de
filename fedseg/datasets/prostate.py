"""Slices of prostate MRI of six sites."""

from typing import Any

from fedseg.datasets.segmentation import SegmentationDataset
from fedseg.datasets.templates import fields_of
from fedseg.registry import DATASETS


@DATASETS.register_module()
class ProstateDataset(SegmentationDataset):
    """T2-weighted MRI of the prostate (Liu et al., MICCAI 2020), as slices of volumes.

    ``fedseg prepare prostate`` makes them. A domain is a site; the channels of an image are the
    slice before, the slice and the one after. Arguments: see
    :class:`~fedseg.datasets.segmentation.SegmentationDataset`.

    Attributes:
        cases: per sample, its volume, such as ``HK/Case38``.
    """

    classes = ("background", "prostate")
    palette = [[0, 0, 0], [90, 150, 220]]
    image_path = "slices/{domain}/images/{case}_{slice}.png"
    label_path = "slices/{domain}/labels/{case}_{slice}.png"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cases = []
        for domain, (image, _) in zip(self.domains, self.files, strict=True):
            name = "/".join(image.split("/")[-4:])
            self.cases.append(f"{domain}/{fields_of(self.image_path, name)['case']}")
