"""A Ray for the tests of this folder, started once."""

from collections.abc import Iterator

import pytest

from fedseg.parallel.ray_start import import_ray, start_ray


@pytest.fixture(scope="package")
def running_ray() -> Iterator[None]:
    """A Ray with three processors, to which this process is connected."""
    pytest.importorskip("ray")
    assert start_ray(None, cpus=3, gpus=0)
    yield
    import_ray().shutdown()
