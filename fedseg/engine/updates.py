"""The check between a client and the aggregate: what every update must be before it counts."""

from fedseg.core.arithmetic import is_finite
from fedseg.core.messages import ClientResult
from fedseg.core.server import Server


def validate_update(result: ClientResult, server: Server, trained: bool) -> str | None:
    """Why an update must be rejected, or None if it counts.

    Args:
        result: what the client sends, and its new state.
        server: has the vectors whose shapes and dtypes are expected.
        trained: whether the client did local steps: it must send ``delta`` then.
    """
    if trained and "delta" not in result.update.vectors:
        return "delta is missing"
    sent = {**result.update.vectors, "buffers": result.buffers, **result.state_vectors()}
    for name, vector in sent.items():
        expected = server.buffers if name == "buffers" else server.w
        if vector.shape != expected.shape:
            return f"{name} has shape {tuple(vector.shape)}, expected {tuple(expected.shape)}"
        if vector.dtype != expected.dtype:
            return f"{name} has dtype {vector.dtype}, expected {expected.dtype}"
        if not is_finite(vector):
            return f"{name} is not finite"
    return None
