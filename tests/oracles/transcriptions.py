"""The algorithms' equations in NumPy, on flat float64 vectors, one function an algorithm.

Written to be read beside the papers, not to be fast, and without a look at the engine. Notation:
``w`` global model, ``w_k`` client k's model, ``S`` the clients of the round, ``K`` all clients,
``N_k`` samples of client k, ``N`` their sum over S, ``delta = sum_S N_k/N (w_start - w_k)`` the
pseudo-gradient, ``w_start`` what the clients received. Rounds are counted from 1. ``mean_S`` is
uniform over S, the pseudo-gradient is weighted by N_k.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Vector = np.ndarray
Correction = Callable[[Vector], Vector]  # a term added to the local gradient at w_k


# ---------------------------------------------------------------- what is trained


@dataclass(frozen=True)
class Federation:
    """Clients with their batches of one epoch, who takes part when, and the first model."""

    initial: Vector
    gradient: Callable[[Vector, np.ndarray], Vector]  # (w, sample indices) -> mean gradient
    scaled: np.ndarray  # bool per entry: ASAM's T is |w| + eta here, 1 elsewhere
    batches: dict[str, list[np.ndarray]]
    participants: list[list[str]]

    def size(self, client: str) -> int:
        return sum(len(batch) for batch in self.batches[client])

    @property
    def num_clients(self) -> int:
        return len(self.batches)


@dataclass(frozen=True)
class Local:
    """Local training: SGD's settings, and the perturbation's (``kind`` sgd, sam or asam)."""

    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 0.01
    epochs: int = 2
    kind: str = "sgd"
    rho: float = 0.0
    eta: float = 0.0
    rho0: float | None = None
    rho_rounds: int = 0


# ---------------------------------------------------------------- local training


def scheduled_rho(rho: float, rho0: float | None, rho_rounds: int, i: int) -> float:
    """FedGloSS, appendix C: linear from rho0 in round 1 to rho after rho_rounds rounds."""
    if rho0 is None or rho_rounds == 0:
        return rho
    return rho0 + (rho - rho0) * min(1.0, (i - 1) / rho_rounds)


def sam_perturbation(g: Vector, rho: float) -> Vector:
    """Foret 2021, eq. 2: eps = rho g / ||g||, one norm over all parameters."""
    norm = np.sqrt(np.sum(g * g))
    return np.zeros_like(g) if norm == 0 else rho * g / norm


def asam_perturbation(w: Vector, g: Vector, rho: float, eta: float, scaled: Vector) -> Vector:
    """Kwon 2021, eq. 5: eps = rho T^2 g / ||T g||, T = |w| + eta, for biases 1."""
    t = np.where(scaled, np.abs(w) + eta, 1.0)
    norm = np.sqrt(np.sum((t * g) ** 2))
    return np.zeros_like(g) if norm == 0 else rho * t**2 * g / norm


def local_gradient(fed: Federation, w: Vector, batch: np.ndarray, local: Local, i: int) -> Vector:
    """The gradient that the local optimizer uses in round ``i``, both passes on one batch."""
    g = fed.gradient(w, batch)
    if local.kind == "sgd":
        return g
    rho = scheduled_rho(local.rho, local.rho0, local.rho_rounds, i)
    if local.kind == "sam":
        eps = sam_perturbation(g, rho)
    else:
        eps = asam_perturbation(w, g, rho, local.eta, fed.scaled)
    return fed.gradient(w + eps, batch)


def train_client(
    fed: Federation,
    client: str,
    w_start: Vector,
    local: Local,
    i: int,
    correction: Correction | None = None,
    lr: float | None = None,
) -> Vector:
    """w_k after E local epochs of SGD with momentum (fresh this round) and weight decay.

    Weight decay, momentum and the correction act at the unperturbed w_k.
    """
    lr = local.lr if lr is None else lr
    w_k, buffer = w_start.copy(), np.zeros_like(w_start)
    for _ in range(local.epochs):
        for batch in fed.batches[client]:
            g = local_gradient(fed, w_k, batch, local, i)
            if correction is not None:
                g = g + correction(w_k)
            buffer = local.momentum * buffer + g + local.weight_decay * w_k
            w_k = w_k - lr * buffer
    return w_k


def pseudo_gradient(fed: Federation, w_start: Vector, models: dict[str, Vector]) -> Vector:
    """delta = sum_S N_k/N (w_start - w_k)."""
    n = sum(fed.size(k) for k in models)
    return sum(fed.size(k) / n * (w_start - w_k) for k, w_k in models.items())


# ---------------------------------------------------------------- FedAvg and FedOpt


class ServerSGD:
    """FedAvg (lr 1, momentum 0) and FedAvgM: v <- m v + delta, w <- w - lr v."""

    def __init__(self, lr: float = 1.0, momentum: float = 0.0) -> None:
        self.lr, self.momentum, self.v = lr, momentum, 0.0

    def step(self, w: Vector, delta: Vector) -> Vector:
        self.v = self.momentum * self.v + delta
        return w - self.lr * self.v


class ServerAdam:
    """FedAdam (Reddi 2021, algorithm 2), no bias correction; v starts at tau^2."""

    def __init__(self, lr: float, betas: tuple[float, float], tau: float) -> None:
        self.lr, (self.b1, self.b2), self.tau = lr, betas, tau
        self.m, self.v = 0.0, tau**2

    def second_moment(self, delta: Vector) -> Vector:
        return self.b2 * self.v + (1 - self.b2) * delta**2

    def step(self, w: Vector, delta: Vector) -> Vector:
        self.m = self.b1 * self.m + (1 - self.b1) * delta
        self.v = self.second_moment(delta)
        return w - self.lr * self.m / (np.sqrt(self.v) + self.tau)


class ServerYogi(ServerAdam):
    """FedYogi: v <- v - (1 - b2) delta^2 sign(v - delta^2)."""

    def second_moment(self, delta: Vector) -> Vector:
        return self.v - (1 - self.b2) * delta**2 * np.sign(self.v - delta**2)


class ServerAdagrad(ServerAdam):
    """FedAdagrad: v <- v + delta^2, with b1 = 0."""

    def __init__(self, lr: float, tau: float) -> None:
        super().__init__(lr, (0.0, 0.0), tau)

    def second_moment(self, delta: Vector) -> Vector:
        return self.v + delta**2


def fedavg(
    fed: Federation,
    local: Local,
    server: ServerSGD | ServerAdam,
    lr_of_round: Callable[[int], float] | None = None,
    uniform: bool = False,
) -> list[Vector]:
    """FedAvg and FedOpt: w <- ServerOpt(w, delta). The global model after every round.

    ``uniform``: delta is the mean over the clients, whatever their sizes.
    """
    w, history = fed.initial.copy(), []
    for i, sampled in enumerate(fed.participants, start=1):
        lr = None if lr_of_round is None else lr_of_round(i)
        models = {k: train_client(fed, k, w, local, i, lr=lr) for k in sampled}
        mean = np.mean([w - w_k for w_k in models.values()], axis=0)
        w = server.step(w, mean if uniform else pseudo_gradient(fed, w, models))
        history.append(w)
    return history


# ---------------------------------------------------------------- FedDyn


def dual_correction(sigma_k: Vector, w_start: Vector, beta: float) -> Correction:
    """Acar 2021, with alpha = 1/beta: - sigma_k + (w_k - w_start)/beta."""
    return lambda w_k: -sigma_k + (w_k - w_start) / beta


def feddyn(fed: Federation, local: Local, beta: float) -> list[Vector]:
    """FedDyn (Acar 2021) in ADMM form; sigma_k of a client outlives the rounds it misses."""
    w, history = fed.initial.copy(), []
    sigma = np.zeros_like(w)
    sigmas = {k: np.zeros_like(w) for k in fed.batches}
    for i, sampled in enumerate(fed.participants, start=1):
        models = {}
        for k in sampled:
            models[k] = train_client(fed, k, w, local, i, dual_correction(sigmas[k], w, beta))
            sigmas[k] = sigmas[k] - (models[k] - w) / beta
        sigma = sigma - sum(w_k - w for w_k in models.values()) / (beta * fed.num_clients)
        w = sum(models.values()) / len(models) - beta * sigma
        history.append(w)
    return history


# ---------------------------------------------------------------- FedGloSS


def released_radii(
    rho: float, rho_client: float, rho0: float, rho_rounds: int, rounds: int
) -> list[float]:
    """The server's radius in each round, by the lists that the released code of FedGloSS makes.

    Two lists start at rho0 and are to grow by equal parts; the server's takes its last value from
    the clients', which is complete by then.
    """
    if rho_rounds <= 1:
        return [rho] * rounds
    clients, server = [rho0], [rho0]
    for _ in range(rho_rounds):
        clients.append(clients[-1] + (rho_client - rho0) / rho_rounds)
    clients += [rho_client] * (rounds - len(clients))
    for _ in range(rho_rounds):
        server.append(clients[-1] + (rho - rho0) / rho_rounds)
    return (server + [rho] * rounds)[:rounds]


def fedgloss(
    fed: Federation,
    local: Local,
    rho_server: float,
    beta: float,
    admm: bool = True,
    rho0: float | None = None,
    rho_rounds: int = 0,
    naive: bool = False,
    released: bool = False,
    dual_from_w: bool = False,
) -> list[Vector]:
    """FedGloSS (Caldarola 2025): SAM on the server, its perturbation from the last round's delta.

    ``naive`` is NaiveFedGloSS: the perturbation comes from an exchange from w with the clients of
    this round; that exchange trains by the client's rule and leaves every dual alone.
    ``released``: the server's rules are those of the code that was released with the paper.
    """
    rounds = len(fed.participants)
    radii = [scheduled_rho(rho_server, rho0, rho_rounds, i + 1) for i in range(rounds)]
    if released:
        radii = released_radii(rho_server, local.rho, rho0, rho_rounds, rounds)
    w, history = fed.initial.copy(), []
    previous = np.zeros_like(w)  # no perturbation in the first round
    sigma = np.zeros_like(w)
    sigmas = {k: np.zeros_like(w) for k in fed.batches}

    def exchange(w_start: Vector, sampled: list[str], i: int) -> dict[str, Vector]:
        if not admm:
            return {k: train_client(fed, k, w_start, local, i) for k in sampled}
        return {
            k: train_client(fed, k, w_start, local, i, dual_correction(sigmas[k], w_start, beta))
            for k in sampled
        }

    for i, sampled in enumerate(fed.participants, start=1):
        direction = pseudo_gradient(fed, w, exchange(w, sampled, i)) if naive else previous
        eps = sam_perturbation(direction, radii[i - 1])
        w_tilde = w + eps
        models = exchange(w_tilde, sampled, i)
        delta = pseudo_gradient(fed, w_tilde, models)
        if admm:
            for k, w_k in models.items():
                sigmas[k] = sigmas[k] - (w_k - w_tilde) / beta
            origin = w if dual_from_w else w_tilde  # algorithm 1, line 22
            moved = sum(w_k - origin for w_k in models.values())
            sigma = sigma - moved / (beta * fed.num_clients * (len(models) if released else 1))
        w = w - delta - (beta * sigma if admm else 0.0)
        previous = delta  # without the sigma term
        history.append(w)
    return history


# ---------------------------------------------------------------- averages for evaluation


def swa_lr(lr1: float, lr2: float, cycle: int, start_round: float, i: int) -> float:
    """Cyclic local learning rate from the start round on: t = (mod(i-1, c)+1)/c, lr1 to lr2."""
    if i < start_round or cycle == 1:
        return lr1
    t = ((i - 1) % cycle + 1) / cycle
    return (1 - t) * lr1 + t * lr2


def swa(
    fed: Federation,
    local: Local,
    server: ServerSGD | ServerAdam,
    start: float,
    cycle: int,
    lr2: float,
) -> tuple[list[Vector], list[Vector]]:
    """FedAvg or FedOpt with SWA: the global models, and what is evaluated after every round.

    Collected in the rounds i with mod(i, c) = 0, i.e. after the lowest rate of a cycle.
    """
    start_round = start * len(fed.participants)
    weights = fedavg(fed, local, server, lambda i: swa_lr(local.lr, lr2, cycle, start_round, i))
    averaged, w_swa, n = [], None, 0
    for i, w in enumerate(weights, start=1):
        if i >= start_round and i % cycle == 0:
            w_swa = w if n == 0 else (n * w_swa + w) / (n + 1)
            n += 1
        averaged.append(w if w_swa is None else w_swa)
    return weights, averaged


def wima(weights: list[Vector], window: int) -> list[Vector]:
    """WIMA: the mean of the last ``window`` global models, of all so far while there are fewer."""
    return [np.mean(weights[max(0, i - window) : i], axis=0) for i in range(1, len(weights) + 1)]
