"""Differences between the curvatures of clients' losses: measures of FedAlign and FedGloSS."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedseg.core.client_data import client_jobs
from fedseg.core.messages import Task
from fedseg.core.server import Server
from fedseg.curvature.checkpoint import RunData, find_checkpoints, opened
from fedseg.curvature.settings import Source
from fedseg.curvature.spectrum import Estimate
from fedseg.curvature.surface import Point
from fedseg.engine.executor import InProcessExecutor
from fedseg.errors import ConfigError, DataError, TrainingError
from fedseg.files import own_path
from fedseg.hooks.averaging import ModelAverage
from fedseg.memory import map_tensors
from fedseg.registry import HOOKS, build
from fedseg.runner.build import build_schedulers
from fedseg.runner.checkpoint import load_checkpoint, run_folder
from fedseg.runner.state_store import StateStore

COLUMNS = 2**17  # of the diagonals that are in memory at a time


def gram_matrix(diagonals: np.ndarray) -> np.ndarray:
    """Inner products of all estimates of all clients' diagonals, which may be memory-mapped.

    From [clients, groups, n] to float64 [clients, groups, clients, groups].
    """
    shape, rows = diagonals.shape[:2], diagonals.reshape(-1, diagonals.shape[-1])
    gram = np.zeros((len(rows), len(rows)))
    for first in range(0, rows.shape[1], COLUMNS):
        part = rows[:, first : first + COLUMNS].astype(float)
        gram += part @ part.T
    return gram.reshape(*shape, *shape)


def hessian_differences(gram: np.ndarray) -> dict[str, Estimate]:
    """H_N and H_D of FedAlign (Mendieta et al., CVPR 2022, section 3.3), over pairs of clients.

    H_N is the mean of ``(||d_k|| - ||d_j||)^2``, H_D that of the cosine of d_k and d_j, where d_k
    is the diagonal of client k's Hessian at the global model. With several independent estimates
    of each diagonal, products of different ones make squared norms without the bias that the noise
    of one gives (it can be a multiple of the norm). What is left of it in H_N, a difference of
    roots, shrinks with the probes; leaving one group out at a time gives standard errors. ``gram``
    is of at least two clients, and of one group of exact diagonals, or three of estimates.
    """
    groups = gram.shape[1]
    values, errors = _differences(gram), np.zeros(2)
    if groups > 1:
        others = [np.delete(np.arange(groups), g) for g in range(groups)]
        parts = [gram[:, o][:, :, :, o] for o in others]
        if not all(diagonal_norms(part).all() for part in (gram, *parts)):
            raise TrainingError(
                "--probes: too few for H_N and H_D: the noise of a client's diagonal exceeds the "
                "diagonal; use more"
            )
        without = np.array([_differences(part) for part in parts])
        errors = np.sqrt((groups - 1) / groups * ((without - without.mean(0)) ** 2).sum(0))
    names = "hessian_norm_diff", "hessian_direction_cos"
    estimates = map(Estimate, values.tolist(), errors.tolist())
    return dict(zip(names, estimates, strict=True))


def diagonal_norms(gram: np.ndarray) -> np.ndarray:
    """``||d_k||`` of each client; 0 where noise makes the estimate of the square negative."""
    clients, groups = gram.shape[:2]
    blocks = np.stack([gram[k, :, k, :] for k in range(clients)])
    if groups == 1:
        return np.sqrt(blocks[:, 0, 0])
    different = ~np.eye(groups, dtype=bool)
    return np.sqrt(blocks[:, different].mean(1).clip(0))


def _differences(gram: np.ndarray) -> np.ndarray:
    norms = diagonal_norms(gram)
    k, j = np.triu_indices(len(norms), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        cosines = gram.mean((1, 3))[k, j] / (norms[k] * norms[j])
    return np.array([((norms[k] - norms[j]) ** 2).mean(), cosines.mean()])


def load_model(source: Source, number: int, run: RunData, checkpoint: Path) -> Point:
    """One of the models that a source names; ``run`` is that of the first."""
    path, model = source.paths[number], source.models()[number]
    if model.client is None:
        return replace(run.load(checkpoint, model.averaged, beside_average=True), name=path)
    if run_folder(checkpoint) == run_folder(find_checkpoints(source)[0]):
        (point,) = train_models(run, checkpoint, [model.client])
    else:
        with opened(replace(source, paths=(path,), config=None)) as other:
            (point,) = train_models(other, checkpoint, [model.client])
    return replace(point, name=path)


def train_models(
    run: RunData, checkpoint: Path, clients: Collection[str] | None = None
) -> list[Point]:
    """The models that clients train in the round after a checkpoint, as its run would.

    In client order, by the clients' names; None: those of the participants. Others begin with the
    states that they have as well. A table of "the last round's participants" takes the checkpoint
    of the round before. The averaged model plays no part in training.
    """
    if unknown := {*(clients or ())} - {*run.data.clients}:
        names = ", ".join(map(repr, unknown))
        raise ConfigError(f":client=: the run has no client {names}; write ID@ for an ID with an @")
    if run.hooks:
        raise ConfigError(
            f"custom_hooks: {', '.join(map(str, run.hooks))} may change how clients train, and "
            "hooks are left out here, so the participants' models are not available"
        )
    payload, flat, data = load_checkpoint(checkpoint), run.flat, run.data
    algorithm, local = run.trainer.algorithm, run.trainer.local
    if "server" not in payload:
        raise DataError(f"{checkpoint}: has no training state, such as one that was shared")
    flat.load_state_dict(payload["state_dict"])
    server = Server(flat, len(data.clients), algorithm.server_vectors)
    server.keep(run.trainer.payloads.values())
    server.load_state_dict(map_tensors(lambda t: t.to(server.w.device), payload["server"]))
    store = StateStore(own_path(run_folder(checkpoint), "state/clients.sqlite"))
    journal = store.path.with_name(f"{store.path.name}-journal")
    if journal.exists():  # reading would undo the round, in a folder that is not ours to change
        raise DataError(f"{journal}: the run is in a round, or was killed in one: resume it first")
    store.load_state_dict(payload["stores"]["clients"])
    if build_schedulers(run.config, local):
        local.load_state_dict(payload["optim_wrapper"])
    number = server.round = payload["round"] + 1
    local.start_round(number)
    if run.config.get("averaging") is not None:
        options = {k: v for k, v in run.config.averaging.items() if k != "priority"}
        average = build(HOOKS, options, "averaging", base=ModelAverage)
        rounds = run.config.train_cfg.max_rounds
        local.change_rates(average.local_lrs(local.optimizer, number, rounds))
    last, trained = len(algorithm.exchanges) - 1, []
    chosen = [run.sampler.participants(number)] * (last + 1)  # of each exchange
    if clients is not None:
        chosen[last] = [c for c, name in enumerate(data.clients) if name in clients]
    executor = InProcessExecutor()
    executor.bind(run)
    jobs = []
    for position, exchange in enumerate(algorithm.exchanges):
        for client in chosen[position]:
            jobs.extend(client_jobs(exchange, number, position, client))
    try:
        executor.start(jobs)
        for server.exchange, those in enumerate(chosen):
            message = algorithm.broadcast(server)
            aggregate = run.trainer.aggregation_rule.new_aggregate(algorithm)
            facts = [(c, data.clients[c], data.sizes[c], data.num_steps(c)) for c in those]
            tasks = [Task(number, server.exchange, *f, store.look_up(f[1])) for f in facts]
            for outcome in executor.run(tasks, message):
                if server.exchange == last:
                    trained.append(Point(outcome.task.name, flat.w.clone(), flat.buffers.clone()))
                if outcome.result is not None:
                    aggregate.add(outcome.result)
                if outcome.block is not None:
                    aggregate.merge(outcome.block)
            if server.exchange < last:
                algorithm.step(server, aggregate)
    finally:
        local.restore_rates()  # others are trained after this
        data.close()
    return trained
