"""Hessian products of CIFAR-10's CNN beside two passes by hand, and five eigenvalues."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import torch.nn.functional as F
from benchmarks.timing import alternate, clocked, median_ratio, medians, peak
from torch import Tensor

from fedseg.core.flat import FlatModel
from fedseg.curvature.products import Products
from fedseg.curvature.spectrum import largest
from fedseg.curvature.surface import LossSurface, Part, Point, Samples
from fedseg.errors import DataError
from fedseg.models.cnn import CNN

BATCH = 125


def curvature(
    folder: Path,
    images: Annotated[int, "of a product"] = 1000,
    eigenvalue_images: Annotated[int, "of the eigenvalues, and of their memory"] = 5000,
    repeats: Annotated[int, "alternating runs"] = 5,
) -> dict[str, Any]:
    """Products over drawn images, memory, and the time of five eigenvalues.

    Raises:
        DataError: the two products differ.
    """
    torch.manual_seed(0)
    flat = FlatModel(CNN(10))
    few = _surface(flat, images)
    products = Products(few)
    vector = np.random.default_rng(0).standard_normal(products.n)
    if not np.allclose(products(vector), _by_hand(few, vector), rtol=1e-3, atol=1e-4):
        raise DataError("curvature: the products of the two ways differ")
    sides = {"product": lambda: products(vector), "by hand": lambda: _by_hand(few, vector)}
    seconds, before = alternate(sides, repeats), peak()
    many = Products(_surface(flat, eigenvalue_images))
    many(vector)
    grown = peak() - before
    taken = clocked(lambda: largest(many, 5, np.random.default_rng(0)))
    return {
        "images of a product": images,
        "seconds": medians(seconds),
        "ratio to by hand": median_ratio(seconds, "product", "by hand"),
        f"peak memory more with {eigenvalue_images} images, MiB": grown,
        f"seconds of five eigenvalues, {eigenvalue_images} images": taken,
        "products for them": many.count - 1,
    }


def _surface(flat: FlatModel, images: int) -> LossSurface:
    """Noisy patterns, one for each class, drawn anew for every batch.

    Noise without classes would have no eigenvalues apart from the others.
    """
    patterns = torch.randn(10, 3, 32, 32, generator=torch.Generator().manual_seed(0))

    def load(plan: list[list[int]]) -> Iterator[tuple[list[int], dict[str, Tensor]]]:
        for batch in plan:
            draw = torch.Generator().manual_seed(batch[0])
            labels = torch.randint(10, (len(batch),), generator=draw)
            inputs = patterns[labels] + torch.randn(len(batch), 3, 32, 32, generator=draw)
            yield batch, {"inputs": inputs, "data_samples": labels}

    plan = [[*range(n, min(n + BATCH, images))] for n in range(0, images, BATCH)]
    point = Point("drawn", flat.w.clone(), flat.buffers)
    return LossSurface(flat, Samples("random", [Part(plan)], load), point)


def _by_hand(surface: LossSurface, vector: np.ndarray) -> np.ndarray:
    parameters = list(surface.flat.model.parameters())
    parts = torch.from_numpy(vector).float().split([p.numel() for p in parameters])
    parts = [part.view(p.shape) for part, p in zip(parts, parameters, strict=True)]
    total, (part,) = torch.zeros(len(vector)), surface.data.parts
    for batch, data in surface.data.load(part.plan):
        loss = F.cross_entropy(surface.flat.model(data["inputs"]), data["data_samples"])
        gradient = torch.autograd.grad(loss, parameters, create_graph=True)
        product = torch.autograd.grad(gradient, parameters, parts)
        flat = torch.cat([p.reshape(-1) for p in product])
        total.add_(flat, alpha=len(batch) / len(surface.data))
    return total.double().numpy()
