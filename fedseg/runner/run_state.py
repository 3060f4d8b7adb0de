"""The state of a run by its parts: what a checkpoint holds, and how a run goes on from it."""

import json
import re
from collections.abc import Iterator, Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from fedseg.config.keys import PROTOCOL, select
from fedseg.core.hook import FederatedHook, Run
from fedseg.core.server import Server
from fedseg.errors import ConfigError, DataError, lacks_memory
from fedseg.files import digest
from fedseg.hooks.averaging import ModelAverage
from fedseg.memory import map_tensors
from fedseg.runner.checkpoint import (
    check_weights,
    checkpoints,
    load_checkpoint,
    newest_advice,
)
from fedseg.runs.config import config_digest
from fedseg.runs.results import environment

# values of keys that a config may leave out
DEFAULTS = {"train_cfg.amp": False, "channels_last": True}
# where clients keep nothing no figure depends on them
TEST_BATCHES = r"val_dataloader\.[^.]*\.(batch_size|drop_last)"
OWN_IMAGES = "train images without a checksum"
# of a schedule's state, how far it has got; ``end`` only says when it stops
SCHEDULE = "learning rate schedule"
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
            "config": run.config_text,
            "config_sha256": config_digest(run.cfg),
            "identity": _identity(run, run.train_loop.finished_rounds),
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
    """Raise an error unless a checkpoint is of the same run, and its files are whole."""
    if payload["round"] > run.max_rounds:
        raise ConfigError(
            f"--resume: {path}: rounds 1 to {payload['round']} are trained, "
            f"train_cfg.max_rounds={run.max_rounds} is fewer; give at least as many, or another "
            "--work-dir"
        )
    before, now = dict(payload["meta"]["identity"]), _identity(run, payload["round"])
    images = before.pop(OWN_IMAGES, None), now.pop(OWN_IMAGES, None)
    if images[0] not in (None, images[1]):
        run.logger.warning(
            f"train_dataloader.dataset: rounds 1 to {payload['round']} had {images[0]}, now "
            f"{images[1]}: no checksum says whether the images are the same"
        )
    other = _other_value(before, now)
    if other is not None:
        name, before, now = other
        raise ConfigError(
            f"--resume: {path} was made with another {name} ({before!r}, now {now!r}); use the "
            f"run's own config, or another --work-dir{_old_end(name, before, now)}"
        )
    check_server(payload, path)
    for name, index in payload["stores"].items():
        if not index:  # an average that has not begun makes an empty store
            continue
        if name not in run.stores:
            raise ConfigError(
                f"--resume: {path} has the clients' {name!r}, which this config does not use; "
                "use the run's own config, or another --work-dir"
            )
        run.stores[name].verify(index)


def check_server(payload: Mapping[str, Any], where: Any) -> None:
    """Raise DataError for a state of the server that no run can go on from."""
    vectors = payload["server"]["state"].items()
    check_weights({n: v for n, v in vectors if not isinstance(v, Real)}, f"{where}: server: state")


def _old_end(name: str, before: Any, now: Any) -> str:
    """The option that keeps a schedule which was as long as the run, for a run of more rounds."""
    if name != SCHEDULE or len(before) != len(now):
        return ""
    ends = [
        f"param_scheduler.{number}.end={old['begin'] + old['total_iters'] + 1}"
        for number, (old, new) in enumerate(zip(before, now, strict=True))
        if "total_iters" in old and old | {"total_iters": 0} == new | {"total_iters": 0} != old
    ]
    return f". To keep it in a longer run: --cfg-options {' '.join(ends)}" if ends else ""


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
    held = payload.get("held_out", {})
    run.held_out = {client: np.array(indices, dtype=np.int64) for client, indices in held.items()}
    if run.local_state is not None:
        for client, state in payload.get("client_statistics", {}).items():
            run.store.stage(client, state)
        run.store.commit(payload.get("round", 0))
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


def _identity(run: Any, round_: int) -> dict[str, Any]:
    """The values that a run resumed after a round shares with the one it continues, by name.

    Names are keys of the config, and of what the config does not say. An average that has not begun
    by then is none yet: until it starts, runs with and without it are the same.
    """
    config = run.cfg.to_dict()
    metrics: dict[str, list[Any]] = {}
    given = config.get("val_evaluator") or ()
    for metric in given if isinstance(given, list | tuple) else (given,):
        kind = metric.get("type") if isinstance(metric, Mapping) else type(metric).__name__
        metrics.setdefault(str(kind), []).append(metric)
    tests = {n: t for n, t in (config.get("val_dataloader") or {}).items() if t is not None}
    config |= {"val_evaluator": metrics, "val_dataloader": tests}
    begun = run.averaging is not None and run.averaging.has_begun(round_, run.max_rounds)
    identity = {
        name: value
        for name, value in {**DEFAULTS, **select(config, resumed=True)}.items()
        if (begun or not name.startswith("averaging"))
        and not (name.endswith(".drop_last") and value is False)
        and (run.local_state is not None or not re.fullmatch(TEST_BATCHES, name))
    }
    if begun:
        identity["averaging: first round"] = run.averaging.first_round(run.max_rounds)
    sampler = config["client_sampler"]
    if select({"client_sampler": sampler}) != select({"client_sampler": sampler}, resumed=True):
        listed = [run.client_sampler.participants(number) for number in range(1, round_ + 1)]
        identity[f"participants of rounds 1 to {round_}"] = digest(listed)
    if not {"files", "split_checksum"} & set(dir(getattr(run.data, "dataset", None))):
        given = {"train_dataloader": {"dataset": config["train_dataloader"].get("dataset")}}
        identity[OWN_IMAGES] = select(given, PROTOCOL)
    schedules = [
        {k: v for k, v in scheduler.state_dict().items() if k not in PROGRESS}
        for scheduler in run.param_schedulers
    ]
    identity |= {
        "dtype": str(run.flat.w.dtype),
        "model parameters": run.flat.num_parameters,
        "train data": run.data.checksum(),
        SCHEDULE: schedules,
        "hooks with states of clients": [
            type(hook).__name__
            for hook in run.hooks
            if isinstance(hook, FederatedHook)
            and type(hook).register_stores is not FederatedHook.register_stores
            and not isinstance(hook, ModelAverage)  # which is compared as such
        ],
    }
    return json.loads(json.dumps(identity, default=lambda part: type(part).__name__))


def _other_value(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
    """The first (name, value, value) in which two identities differ, or None.

    A test set or metric that only one of them has makes no difference.
    """
    shared = {_part(name) for name in before} & {_part(name) for name in now}
    for name in sorted(before.keys() | now.keys(), key=lambda name: (" " in name, name)):
        optional = name.startswith(("val_dataloader.", "val_evaluator."))
        values = before.get(name), now.get(name)
        if values[0] != values[1] and (_part(name) in shared or not optional):
            return name, *values
    return None


def _part(name: str) -> str:
    return ".".join(name.split(".")[:2])
