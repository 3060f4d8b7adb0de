"""Drives the engine through its public interface on the oracle problem: a config and a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import problem
import torch
import toyquad
import toyseg
from transcriptions import Federation, Local

from fedseg.runner.state_store import Index, StateStore

# What both sides use unless a test says otherwise.
BATCH_SIZE = 4
LOCAL = Local()
PLAIN = replace(LOCAL, momentum=0.0)
SAM = replace(LOCAL, kind="sam", rho=0.05)
ASAM = replace(LOCAL, kind="asam", rho=0.5, eta=0.2)
# the partitions
UNEQUAL = {"type": "OraclePartition"}
EQUAL = {**UNEQUAL, "sizes": list(problem.EQUAL_SIZES)}

# float64 on both sides: about 1e-13 is seen, 1e-5 would still be agreement.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Trace:
    """What a run left behind, by round.

    Attributes:
        weights: the global model, flat.
        averaged: the averaged one, where there is one.
        server: the server's vectors by name.
        clients: every client's state: vectors by name, and what else it keeps as an array.
        history: the lines of the history.
    """

    weights: list[np.ndarray]
    averaged: list[np.ndarray | None]
    server: list[dict[str, np.ndarray]]
    clients: list[dict[str, dict[str, np.ndarray]]]
    history: list[dict[str, Any]]


def federation(
    batch_size: int | str = BATCH_SIZE,
    sizes: Sequence[int] = problem.SIZES,
    participants: list[list[str]] = problem.PARTICIPANTS,
) -> Federation:
    """The oracle problem as the transcriptions take it."""
    x, y = problem.make_data()
    clients = problem.make_clients(sizes)
    return Federation(
        initial=problem.initial_weights(),
        gradient=lambda w, batch: problem.gradient(w, x[batch], y[batch]),
        scaled=problem.scaled_entries(),
        batches={k: problem.make_batches(ids, batch_size) for k, ids in clients.items()},
        participants=participants,
        loss=lambda w, samples: problem.loss(w, x[samples], y[samples]),
    )


def optim_wrapper(local: Local = LOCAL) -> dict[str, Any]:
    sgd = {name: getattr(local, name) for name in ("lr", "momentum", "weight_decay")}
    wrapper: dict[str, Any] = {"optimizer": {"type": "SGD", **sgd}, "type": "OptimWrapper"}
    if local.kind == "sgd":
        return wrapper
    wrapper |= {"type": f"{local.kind.upper()}OptimWrapper", "rho": local.rho}
    if local.kind == "asam":
        wrapper["eta"] = local.eta
    if local.rho0 is not None:
        wrapper |= {"rho0": local.rho0, "rho_rounds": local.rho_rounds}
    return wrapper


def run_engine(
    folder: Path,
    algorithm: Mapping[str, Any],
    local: Local = LOCAL,
    averaging: dict[str, Any] | None = None,
    batch_size: int | str = BATCH_SIZE,
    partition: Mapping[str, Any] = UNEQUAL,
    participants: list[list[str]] = problem.PARTICIPANTS,
    rounds: int | None = None,
    decay: float | None = None,
    hooks: Sequence[dict[str, Any]] = (),
) -> Trace:
    """Train by the engine in float64, unshuffled.

    ``decay``: the local learning rate is multiplied by it after every round. ``hooks``: custom
    hooks.
    """
    rounds = len(participants) if rounds is None else rounds
    config = toyquad.settings(
        folder,
        algorithm,
        custom_imports={"imports": ["problem"]},
        model={"type": "OracleMLP"},
        train_dataloader={
            "batch_size": batch_size,
            "shuffle": False,
            "dataset": {"type": "OracleData"},
            "partition": partition,
        },
        client_sampler={"_delete_": True, "type": "FixedSampler", "participants": participants},
        optim_wrapper=optim_wrapper(local),
        param_scheduler=None if decay is None else {"type": "ExponentialLR", "gamma": decay},
        averaging=averaging,
        train_cfg={"max_rounds": rounds, "local_steps": None, "local_epochs": local.epochs},
        default_hooks={"checkpoint": {"keep_last": 100}},  # with the clients' states
        custom_hooks=list(hooks),
    )
    toyseg.train(config)
    trace = Trace([], [], [], [], toyseg.history(config))
    client_states = ClientStates(Path(config["work_dir"]))
    for i in range(1, rounds + 1):
        checkpoint = toyseg.checkpoint(config, i)
        trace.weights.append(flat(checkpoint["state_dict"]))
        mean = checkpoint.get("averaged_state_dict")
        trace.averaged.append(None if mean is None else flat(mean))
        trace.server.append({n: plain(t) for n, t in checkpoint["server"]["state"].items()})
        trace.clients.append(client_states.of(checkpoint["stores"]["clients"]))
    return trace


class ClientStates:
    """The clients' states of a run's checkpoints; each row of the store is read once."""

    def __init__(self, work_dir: Path) -> None:
        self._store = StateStore(work_dir / "state" / "clients.sqlite")
        self._rows: dict[tuple[str, int], dict[str, np.ndarray]] = {}

    def of(self, index: Index) -> dict[str, dict[str, np.ndarray]]:
        """Client -> vectors by name, as a checkpoint's index says."""
        states = {}
        for client, entry in index.items():
            row = (client, entry["round"])
            if row not in self._rows:
                self._store.load_state_dict({client: entry})
                tensors = self._store.get(client)
                self._rows[row] = {name: plain(tensor) for name, tensor in tensors.items()}
            states[client] = self._rows[row]
        return states


def plain(tensor: torch.Tensor) -> np.ndarray:
    """A vector like w without the engine's gaps (every parameter starts at 64 bytes), float64."""
    array = tensor.double().numpy()
    sizes = [int(np.prod(shape)) for shape in problem.SHAPES.values()]
    starts = np.cumsum([0, *(-(-size // 8) * 8 for size in sizes)])
    if array.shape != (starts[-1],):
        return array
    return np.concatenate([array[a : a + n] for a, n in zip(starts[:-1], sizes, strict=True)])


def flat(state_dict: dict[str, torch.Tensor]) -> np.ndarray:
    """The flat vector of a state dict; float64 has to have come through."""
    assert all(state_dict[name].dtype == torch.float64 for name in problem.SHAPES)
    return problem.join({name: state_dict[name].numpy() for name in problem.SHAPES})


def relative_error(actual: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """Largest error of any entry after any round, relative to that entry.

    Entries smaller than a thousandth of the vector's largest count as if they were that big.
    """
    assert len(actual) == len(expected) > 0
    worst = 0.0
    for a, b in zip(actual, expected, strict=True):
        assert a.shape == b.shape
        scale = np.maximum(np.abs(b), 1e-3 * np.abs(b).max())
        worst = max(worst, float((np.abs(a - b) / scale).max()))
    assert np.isfinite(worst)
    return worst
