"""Images and label maps of one's own, below a folder, as a split lists them."""

from collections.abc import Sequence
from typing import Any

from fedseg.datasets.segmentation import SegmentationDataset
from fedseg.datasets.templates import names_of
from fedseg.errors import ConfigError
from fedseg.registry import DATASETS


def color_of(index: int) -> list[int]:
    """[r, g, b] of a class in Pascal VOC's color map, which labelme uses too."""
    return [
        sum((index >> (3 * bit + channel) & 1) << (7 - bit) for bit in range(8))
        for channel in range(3)
    ]


@DATASETS.register_module()
class ListedDataset(SegmentationDataset):
    """Images and label maps whose paths two templates describe; ids are the order of the classes.

    ``fedseg prepare segmentation`` lists them in a split and writes a config with these arguments.
    Other arguments: see :class:`~fedseg.datasets.segmentation.SegmentationDataset`.

    Args:
        image_path: template of an image's path below ``data_root``, such as
            ``"{domain}/images/{name}.jpg"``, see :mod:`fedseg.datasets.templates`. Without
            ``{domain}`` all images are of the domain ``all``.
        label_path: template of its label map's path, with fields of ``image_path``.
        classes: names, in the order of their ids from 0; id 255 is ignored.
        palette: [r, g, b] by class; default: Pascal VOC's color map.
    """

    def __init__(
        self,
        data_root: str,
        split: str,
        image_path: str,
        label_path: str,
        classes: Sequence[str],
        palette: Sequence[Sequence[int]] = (),
        **kwargs: Any,
    ) -> None:
        if unknown := sorted(names_of(label_path) - names_of(image_path)):
            must = "must have fields of dataset.image_path"
            raise ConfigError(f"dataset.label_path: {must}, not {unknown}.")
        self.image_path, self.label_path = image_path, label_path
        self.classes = tuple(classes)
        colors = palette or [color_of(index) for index in range(len(classes))]
        self.palette = [list(color) for color in colors]
        super().__init__(data_root, split, **kwargs)
