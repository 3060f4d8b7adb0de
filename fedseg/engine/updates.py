"""The gate between a client and the aggregate: an update is checked before it counts."""

from collections.abc import Mapping

from torch import Tensor

from fedseg.core.arithmetic import is_finite


def validate_update(
    vectors: Mapping[str, Tensor], like: Mapping[str, Tensor], other: Tensor
) -> str | None:
    """Why an update must be rejected, or None if it is sound.

    Args:
        vectors: the tensors that the client sends.
        like: name -> a tensor of the shape and dtype expected; all of them must be there.
        other: what vectors of any other name are expected to be like.
    """
    missing = [name for name in like if name not in vectors]
    if missing:
        return f"{missing[0]} is missing"
    for name, vector in vectors.items():
        expected = like.get(name, other)
        if vector.shape != expected.shape:
            return f"{name} has shape {tuple(vector.shape)}, expected {tuple(expected.shape)}"
        if vector.dtype != expected.dtype:
            return f"{name} has dtype {vector.dtype}, expected {expected.dtype}"
        if not is_finite(vector):
            return f"{name} is not finite"
    return None
