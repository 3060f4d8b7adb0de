"""Counter-based randomness: a seed is a pure function of its purpose and counters.

Every random draw of a run comes from a generator keyed by (run seed, purpose, counters), for
example ``(0, "shuffle", round, client, epoch)``. There is no shared generator state, so a run
does not depend on the number of workers, on the executor, on the order of the clients, or on having
been resumed.
"""

import hashlib
import struct

import numpy as np
import torch


def seed_for(seed: int, purpose: str, *counters: int) -> int:
    """A 63-bit seed for one purpose.

    Args:
        seed: the run's seed.
        purpose: what is drawn, for example ``"participants"``; two purposes never share draws.
        counters: round, client, epoch, sample, ... (integers that fit 64 bits).
    """
    key = purpose.encode() + b"\0" + struct.pack(f"<{len(counters) + 1}q", seed, *counters)
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little") >> 1


def generator_for(seed: int, purpose: str, *counters: int) -> np.random.Generator:
    """A NumPy generator (Philox) keyed by :func:`seed_for`."""
    return np.random.Generator(np.random.Philox(key=seed_for(seed, purpose, *counters)))


def seed_model(seed: int, device: torch.device) -> None:
    """Seed what a model on ``device`` draws from (dropout), and no other device.

    The same draws as after ``torch.manual_seed``, which seeds every kind of device that the machine
    might have and costs a client a hundred times as much.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
    elif device.type != "cpu":
        torch.manual_seed(seed)
