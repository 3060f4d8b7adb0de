"""What the reader of a page has already: small data in place of real ones, photographs."""

import itertools
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
from PIL import Image

from fedseg.data_prep import idda, synthetic_streets
from fedseg.data_prep.synthetic_shapes import write_shapes
from fedseg.datasets.arrays import write_images

# of settings of IDDA, for the streets below: two clients with four images each
FEW_CLIENTS = "--cfg-options train_dataloader.batch_size=2 client_sampler.clients_per_round=2"
# and images as they are, instead of 1024 x 1856 pixels, without processes that load them
FEW_IMAGES = " ".join(
    [
        FEW_CLIENTS,
        "train_dataloader.num_workers=0 train_dataloader.dataset.pipeline=[]",
        "val_dataloader.unseen.num_workers=0 val_dataloader.unseen.dataset.pipeline=[]",
        "val_dataloader.seen.num_workers=0 val_dataloader.seen.dataset.pipeline=[]",
    ]
)
CIFAR10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def shapes(folder: Path) -> None:
    """The shapes that ``fedseg prepare cifar --synthetic`` renders, fewer of them."""
    write_shapes(folder / "data" / "demo_shapes", train=1000, test=20)


def cifar10(folder: Path) -> None:
    """A prepared ``data/cifar10`` of noise: ten images for each of 100 clients."""
    rng = np.random.default_rng(0)

    def images(count: int) -> tuple[np.ndarray, np.ndarray]:
        return rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8), np.arange(count) % 10

    write_images(folder / "data" / "cifar10", "CIFAR10", CIFAR10, images(1000), images(100))


def streets(small_config: Path, root: Path) -> None:
    """The streets of ``small_config`` in IDDA's layout, with the split of the rainy setting."""
    shutil.copytree(small_config.parent / "data" / "IDDAsmall", root / "IDDAsmall")
    splits = small_config.parent / "data" / "splits"
    shutil.copytree(splits, root / "splits" / "heterogeneous" / "rainy")


def demo_streets(folder: Path) -> None:
    """The files that ``fedseg demo`` renders, which takes half a minute: one small image in all."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (32, 58, 3), dtype=np.uint8)
    classes = rng.integers(0, 8, (32, 58))

    def write(function: object, chunks: list, workers: int) -> Iterator[None]:
        for image, label, ids, _ in itertools.chain(*chunks):
            save(label, ids[classes])
            save(image, pixels)
            yield

    with mock.patch.object(synthetic_streets, "in_processes", write):
        idda.prepare_demo_streets(folder / "data" / "demo_weather")


def photograph(path: Path, width: int = 96, height: int = 64) -> None:
    """A photograph of nothing in particular."""
    rng = np.random.default_rng(0)
    save(path, rng.integers(0, 256, (height, width, 3), dtype=np.uint8))


def save(path: Path, pixels: np.ndarray) -> None:
    """Write an image file: RGB, uint8 [H, W, 3], or ids, uint8 [H, W]."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


# ---------------------------------------------------------------- annotated images

PETS = ["background", "cat", "dog"]
PET_COLORS = [[0, 0, 0], [200, 40, 40], [40, 40, 200]]
HEIGHT, WIDTH, IMAGES = 64, 96, 15


@dataclass(frozen=True)
class Pet:
    """A photograph with an animal in a box.

    Attributes:
        name: of the photograph, without its ending.
        label: the animal, an index into PETS.
        box: left, top, right and bottom, pixels.
    """

    name: str
    label: int
    box: tuple[int, int, int, int]

    def image(self) -> np.ndarray:
        """RGB, uint8 [H, W, 3]: the animal's color on noise."""
        rng = np.random.default_rng(self.box)
        pixels = rng.integers(60, 120, (HEIGHT, WIDTH, 3), dtype=np.uint8)
        left, top, right, bottom = self.box
        pixels[top:bottom, left:right] = PET_COLORS[self.label]
        return pixels

    def ids(self) -> np.ndarray:
        """uint8 [H, W], 0 where there is no animal."""
        ids = np.zeros((HEIGHT, WIDTH), np.uint8)
        left, top, right, bottom = self.box
        ids[top:bottom, left:right] = self.label
        return ids


def some_pets() -> list[Pet]:
    boxes = [(4 + 2 * number, 6 + number, 50 + 2 * number, 40 + number) for number in range(IMAGES)]
    return [Pet(f"pet{number}", 1 + number % 2, box) for number, box in enumerate(boxes)]


def label_maps(folder: Path) -> None:
    """data/pets with photographs, label maps of ids, and the names of the classes."""
    root = folder / "data" / "pets"
    for pet in some_pets():
        save(root / "JPEGImages" / f"{pet.name}.jpg", pet.image())
        save(root / "SegmentationClass" / f"{pet.name}.png", pet.ids())
    (folder / "labels.txt").write_text("\n".join(PETS), encoding="utf-8")


def labelme(folder: Path) -> None:
    """Photographs with a JSON file of labelme beside each."""
    export = folder / "export"
    for pet in some_pets():
        left, top, right, bottom = pet.box
        save(export / f"{pet.name}.jpg", pet.image())
        shape = {
            "label": PETS[pet.label],
            "points": [[left, top], [right, bottom]],
            "group_id": None,
            "shape_type": "rectangle",
            "flags": {},
        }
        annotation = {
            "version": "5.4.1",
            "flags": {},
            "shapes": [shape],
            "imagePath": f"{pet.name}.jpg",
            "imageData": None,
            "imageHeight": HEIGHT,
            "imageWidth": WIDTH,
        }
        (export / f"{pet.name}.json").write_text(json.dumps(annotation), encoding="utf-8")


def cvat(folder: Path) -> None:
    """An unpacked export "Segmentation mask 1.1" of CVAT."""
    export = folder / "export"
    palette = np.array(PET_COLORS, np.uint8)
    for pet in some_pets():
        save(export / "JPEGImages" / f"{pet.name}.jpg", pet.image())
        save(export / "SegmentationClass" / f"{pet.name}.png", palette[pet.ids()])
    lines = ["# label:color_rgb:parts:actions"]
    for name, color in zip(PETS, PET_COLORS, strict=True):
        lines.append(f"{name}:{','.join(map(str, color))}::")
    (export / "labelmap.txt").write_text("\n".join(lines), encoding="utf-8")


def coco(folder: Path) -> None:
    """A file of COCO with polygons, and its photographs."""
    export = folder / "export"
    images, annotations = [], []
    for number, pet in enumerate(some_pets()):
        left, top, right, bottom = pet.box
        save(export / "images" / f"{pet.name}.jpg", pet.image())
        images.append(
            {"id": number, "file_name": f"{pet.name}.jpg", "height": HEIGHT, "width": WIDTH}
        )
        annotation = {
            "id": number,
            "image_id": number,
            "category_id": pet.label,
            "segmentation": [[left, top, right, top, right, bottom, left, bottom]],
            "area": (right - left) * (bottom - top),
            "bbox": [left, top, right - left, bottom - top],
            "iscrowd": 0,
        }
        annotations.append(annotation)
    categories = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
    content = {"images": images, "annotations": annotations, "categories": categories}
    (export / "annotations.json").write_text(json.dumps(content), encoding="utf-8")


def orchards(folder: Path) -> None:
    """data/orchards, label maps of three classes in folders of sites."""
    rng = np.random.default_rng(0)
    for site in ("east", "north", "west"):
        for number in range(6):
            ids = np.repeat(rng.integers(0, 4, (36, 1), np.uint8), 64, axis=1)
            root = folder / "data" / "orchards" / site
            save(root / "images" / f"{number}.png", np.stack([ids * 60] * 3, 2))
            save(root / "labels" / f"{number}.png", ids)


def flowers(folder: Path) -> None:
    """data/flowers, photographs in class folders."""
    rng = np.random.default_rng(0)
    for split, count in (("train", 12), ("test", 2)):
        for name in ("aster", "daisy", "iris", "lily", "rose"):
            for number in range(count):
                pixels = rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)
                save(folder / "data" / "flowers" / split / name / f"{number}.jpg", pixels)
