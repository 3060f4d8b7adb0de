"""The benchmark of Hessian products."""

import numpy as np
from benchmarks import curvature as benchmark
from benchmarks.curvature import curvature


def test_products_and_eigenvalues_are_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "BATCH", 2)
    six = lambda products, k, rng: [products(np.ones(products.n)) for _ in range(k + 1)]  # noqa: E731
    monkeypatch.setattr(benchmark, "largest", six)
    measured = curvature(tmp_path, images=3, eigenvalue_images=4, repeats=1)
    assert measured["ratio to by hand"] > 0
    assert measured["products for them"] == 6
