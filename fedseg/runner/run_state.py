"""The state of a run by its parts: what a checkpoint holds, and how a run goes on from it."""

import json
from collections.abc import Iterator, Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from fedseg.config.roles import select
from fedseg.core.hook import Run
from fedseg.core.server import Server
from fedseg.errors import ConfigError, DataError, lacks_memory
from fedseg.memory import map_tensors
from fedseg.runner.checkpoint import (
    check_weights,
    checkpoints,
    load_checkpoint,
    newest_advice,
)
from fedseg.runner.state_store import CheckpointStates
from fedseg.runs.config import config_digest, plain_config
from fedseg.runs.results import environment

# of a schedule's state, how far it has got; ``end`` only says when it stops
PROGRESS = ("last_step", "_global_step", "_last_value", "end")


def stateful_parts(run: Any) -> dict[str, Any]:
    """The parts of a built run that have a state, by name in a checkpoint, as they are restored.

    A part, or a list or dict of them, has ``state_dict`` and ``load_state_dict``.
    """
    return {
        "server": run.server,
        "schedulers": list(run.param_schedulers),
        # a schedule goes on from its last rate; without one the config's holds
        **({"optim_wrapper": run.optim_wrapper} if run.param_schedulers else {}),
        "stores": run.stores,
        "history": run.history,
        "run": run,
        "loop": run.train_loop,
        "hooks": dict(_stateful_hooks(run)),
    }


def collect(run: Any) -> dict[str, Any]:
    """Everything that a built run's future depends on, as tensors and plain values."""
    server = run.server
    payload = {
        "state_dict": state_dict(run, server.w, server.buffers),
        "round": run.train_loop.finished_rounds,
        **{name: _states(part) for name, part in stateful_parts(run).items()},
        "client_sizes": run.client_sizes,
        "domain_clients": run.domain_clients,
        "meta": {
            "seed": run.seed,
            "config": plain_config(run.cfg.to_dict()),
            "config_sha256": config_digest(run.cfg),
            "train_data": run.data.checksum(),
            "average_start": _average_start(run, run.train_loop.finished_rounds),
            # class names and colors as plain lists
            "dataset_meta": json.loads(
                json.dumps(
                    getattr(run.data.dataset, "metainfo", None),
                    default=lambda v: v.tolist() if hasattr(v, "tolist") else list(v),
                )
            ),
        },
    }
    if run.held_out:
        payload["held_out"] = {client: one.tolist() for client, one in run.held_out.items()}
    if run.local_state is not None:  # small, and an old checkpoint's state files are deleted
        states = ((client, run.store.get(client)) for client in run.store.keys())  # noqa: SIM118
        personal = ((client, run.local_state.select_state(state)) for client, state in states)
        payload["client_statistics"] = {client: state for client, state in personal if state}
    check_server(payload, f"round {payload['round']}")
    averaged = run.averaged_model()
    if averaged is not None:
        payload["averaged_state_dict"] = state_dict(run, *averaged)
        payload["reestimated"] = run.has_estimate
    payload["hooks"] = {name: state for name, state in payload["hooks"].items() if state}
    return payload


def _states(part: Any) -> Any:
    if isinstance(part, dict):
        return {name: _states(inner) for name, inner in part.items()}
    return [_states(inner) for inner in part] if isinstance(part, list) else part.state_dict()


def restore_newest(run: Any, folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """Bring a run, built from its config, to where its newest checkpoint was made; writes nothing.

    Its hooks have opened their stores.

    Returns:
        The checkpoint's path and content; None if there is none.

    Raises:
        ConfigError: the checkpoint is of another run.
        DataError: it, the history or a client's state is damaged.
    """
    saved = checkpoints(folder)
    if not saved:
        return None
    _, path = saved[-1]
    try:
        payload = load_checkpoint(path)
        restore(run, path, payload)
    except DataError as error:
        raise DataError(f"{error}; {newest_advice(path)}") from error
    return path, payload


def restore(run: Any, path: Path, payload: dict[str, Any]) -> None:
    """Bring a run to where a checkpoint was made; see :func:`restore_newest`."""
    if "meta" not in payload or "server" not in payload:
        raise DataError(f"{path}: has no training state, such as one that was shared")
    try:
        _check(run, path, payload)
        _load(run, payload)
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if lacks_memory(error):
            raise
        raise DataError(f"{path}: cannot be restored: {type(error).__name__}: {error}") from error
    averaged = run.averaged_model()
    if averaged is not None:
        check_weights(state_dict(run, *averaged), f"{path}: average")


def _load(run: Any, payload: dict[str, Any]) -> None:
    restore_model(run, payload["state_dict"])
    device = run.server.w.device

    def load(part: Any, state: Any) -> None:
        if isinstance(part, dict):
            for name in filter(state.__contains__, part):
                load(part[name], state[name])
        elif isinstance(part, list):
            for inner, saved in zip(part, state, strict=True):
                load(inner, {**saved, "end": inner.end})  # of a schedule, which may be prolonged
        else:
            part.load_state_dict(map_tensors(lambda tensor: tensor.to(device), state))

    for name, part in stateful_parts(run).items():
        load(part, payload[name])
    run.round = run.train_loop.finished_rounds


def _check(run: Any, path: Path, payload: dict[str, Any]) -> None:
    """Raise an error unless a checkpoint is of the same run, and its server's state is whole."""
    if payload["round"] > run.max_rounds:
        raise ConfigError(
            f"--resume: {path}: rounds 1 to {payload['round']} are trained, "
            f"train_cfg.max_rounds={run.max_rounds} is fewer; give at least as many, or another "
            "--work-dir"
        )
    _check_shared(run, path, payload)
    _check_schedule(run, path, payload)
    check_server(payload, path)
    for name, index in payload["stores"].items():
        if index and name not in run.stores:  # an average that has not begun has an empty one
            raise ConfigError(
                f"--resume: {path} has the clients' {name!r}, which this config does not use; "
                "use the run's own config, or another --work-dir"
            )


def _check_shared(run: Any, path: Path, payload: dict[str, Any]) -> None:
    """Raise ConfigError if another config, but for what may change, or other data made it."""
    meta = payload["meta"]
    before = _shared_values(meta["config"], meta["train_data"], meta["average_start"])
    start = _average_start(run, payload["round"])
    now = _shared_values(plain_config(run.cfg.to_dict()), run.data.checksum(), start)
    for name in {**before, **now}:
        if before.get(name) != now.get(name):
            raise ConfigError(
                f"--resume: {path} was made with another {name} ({before.get(name)!r}, now "
                f"{now.get(name)!r}); use the run's own config, or another --work-dir"
            )


def _shared_values(
    config: Mapping[str, Any], train_data: str, average_start: int | None
) -> dict[str, Any]:
    """What a run and its continuation share, by name: keys of the config, then other facts.

    Args:
        config: as plain values.
        average_start: see :func:`_average_start`; without it, runs with and without an average are
            the same.
    """
    shared = select(config, resumed=True)
    if average_start is None:
        shared = {key: value for key, value in shared.items() if not key.startswith("averaging")}
    shared["average's first round"] = average_start
    shared["train data"] = train_data
    return shared


def _average_start(run: Any, round_: int) -> int | None:
    """The first round of the average, if it has begun by the end of a round."""
    if run.averaging is None or not run.averaging.has_begun(round_, run.max_rounds):
        return None
    return run.averaging.first_round(run.max_rounds)


def _check_schedule(run: Any, path: Path, payload: dict[str, Any]) -> None:
    """Raise ConfigError if another number of rounds makes another schedule of the learning rate."""
    before = [_course(state) for state in payload["schedulers"]]
    now = [_course(scheduler.state_dict()) for scheduler in run.param_schedulers]
    if before != now:
        rounds = payload["meta"]["config"]["train_cfg"]["max_rounds"]
        raise ConfigError(
            f"--resume: {path}: param_scheduler has another course over {run.max_rounds} rounds "
            f"than over {rounds}: add end={rounds + 1} to it, or give another --work-dir"
        )


def _course(state: Mapping[str, Any]) -> dict[str, Any]:
    """A schedule's state without how far it has got."""
    return {key: value for key, value in state.items() if key not in PROGRESS}


def check_server(payload: Mapping[str, Any], where: Any) -> None:
    """Raise DataError for a state of the server that no run can go on from."""
    vectors = payload["server"]["state"].items()
    check_weights({n: v for n, v in vectors if not isinstance(v, Real)}, f"{where}: server: state")


def note_environment(run: Any) -> None:
    """Remember what computes the rounds from here on, and warn if it is not what did before."""
    now = environment(run.flat.w.device)
    before = run.environments[-1] if run.environments else {}
    changed = [
        f"{key} {before.get(key)}, now {now[key]}" for key in now if before.get(key) != now[key]
    ]
    if before and changed:
        run.logger.warning(
            f"rounds 1 to {run.round} were computed with {'; '.join(changed)}: the run may differ "
            "in its last digits from an uninterrupted one"
        )
    if changed:
        run.environments.append({"round": run.round + 1, **now})


def restore_for_test(run: Any, payload: dict[str, Any]) -> None:
    """Give a run without training data what its evaluation needs of a checkpoint."""
    run.server = Server(run.flat, num_clients=1)
    run.client_sizes = dict(payload.get("client_sizes", {}))
    run.domain_clients = dict(payload.get("domain_clients", {}))
    run.held_out = {}
    for client, indices in payload.get("held_out", {}).items():
        run.held_out[client] = np.array(indices, dtype=np.int64)
    if run.local_state is not None:
        run.store = CheckpointStates(payload.get("client_statistics", {}))
    if payload.get("averaged_state_dict") is not None:
        restore_model(run, payload["averaged_state_dict"])


def restore_model(run: Run, state_dict: Mapping[str, Tensor]) -> None:
    """Load a plain state dict into the model and the server's copy of it."""
    flat, server = run.flat, run.server
    flat.load_state_dict(state_dict)
    server.w.copy_(flat.w)
    server.buffers.copy_(flat.buffers)
    server.counters.copy_(flat.counters)


def state_dict(run: Run, w: Tensor, buffers: Tensor) -> dict[str, Tensor]:
    """A plain state dict of these parameters and float buffers and the server's counters."""
    return run.flat.state_dict(w, buffers, run.server.counters)


def _stateful_hooks(run: Any) -> Iterator[tuple[str, Any]]:
    """Hooks with a state, by class and number among those of their class."""
    seen: dict[str, int] = {}
    for hook in run.hooks:
        name = type(hook).__name__
        number = seen[name] = seen.get(name, -1) + 1
        if hasattr(hook, "load_state_dict"):
            yield f"{name}:{number}", hook
