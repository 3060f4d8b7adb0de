"""Memory of long vectors."""

import pytest
import torch

from fedseg import memory


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(memory, "LONG", 100)
    monkeypatch.setattr(memory, "_kept", [])


def place(size):
    return memory.empty_like(torch.empty(size), torch.float64).data_ptr()


def test_memory_is_taken_again_once_nothing_lies_in_it():
    first = memory.empty_like(torch.empty(500), torch.float64)
    held, view = first.data_ptr(), first[100:]
    assert first.dtype == torch.float64 and first.shape == (500,)
    del first
    assert place(500) != held, "a view lies in it"
    del view
    taken = [memory.empty_like(torch.empty(500), torch.float64) for _ in range(2)]
    assert held in [vector.data_ptr() for vector in taken]


def test_memory_of_another_length_is_given_back():
    for size in (500, 600, 600):
        place(size)
    assert [kept.size for kept, _ in memory._kept] == [600]


@pytest.mark.parametrize("size", [7, 1001, 70_001])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_the_norm_has_the_bits_of_pytorch_s(size, scale):
    vector = torch.randn(size, generator=torch.Generator().manual_seed(size)) * scale
    expected = float(torch.linalg.vector_norm(vector, dtype=torch.float64))
    assert memory.norm(vector, torch.float64) == expected
