"""The equations of the drift-correction algorithms in NumPy, one function an algorithm.

As :mod:`transcriptions`, whose notation and conventions hold here too: flat float64 vectors,
rounds from 1, ``mean_S`` uniform over the round's clients, ``K_k`` the local steps of client k,
``eta`` the local learning rate of the round. Where an algorithm says nothing of its server rule it
is FedAvg's, ``w <- w - delta``.

Momentum and weight decay act on what an algorithm makes of the gradient, at the unperturbed w_k.
Every function returns a list of :class:`Round`, with what server and clients keep.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from transcriptions import (
    Federation,
    Local,
    Vector,
    local_gradient,
    pseudo_gradient,
    sam_perturbation,
    scheduled_rho,
)

Step = Callable[[Vector, np.ndarray], Vector]  # (w_k, batch) -> direction of a local step
Rate = Callable[[int], float]  # round -> local learning rate


@dataclass(frozen=True)
class Round:
    """After a round: the global model; the server's vectors; every client's vectors, by name."""

    w: Vector
    server: dict[str, Vector] = field(default_factory=dict)
    clients: dict[str, dict[str, Vector]] = field(default_factory=dict)


# ---------------------------------------------------------------- what all share


def rate_of(local: Local, rate: Rate | None, i: int) -> float:
    """eta of round i: the schedule's, else the constant one."""
    return local.lr if rate is None else rate(i)


def num_steps(fed: Federation, client: str, local: Local) -> int:
    """K_k: epochs times batches."""
    return local.epochs * len(fed.batches[client])


def walk(
    fed: Federation, client: str, w_start: Vector, local: Local, step: Step, eta: float
) -> Vector:
    """w_k after E local epochs along ``step``, with fresh momentum and weight decay."""
    w_k, buffer = w_start.copy(), np.zeros_like(w_start)
    for _ in range(local.epochs):
        for batch in fed.batches[client]:
            direction = step(w_k, batch) + local.weight_decay * w_k
            buffer = local.momentum * buffer + direction
            w_k = w_k - eta * buffer
    return w_k


def path_length(k_steps: int, momentum: float) -> float:
    """(w - w_k)/(eta g) after k steps along one and the same g: K_k without momentum."""
    length = speed = 0.0
    for _ in range(k_steps):
        speed = momentum * speed + 1
        length += speed
    return length


def full_gradient(fed: Federation, client: str, w: Vector, local: Local, i: int) -> Vector:
    """Gradient of client k's mean loss over all of its samples.

    With SAM or ASAM the perturbation is each minibatch's own, as it is in local steps: the mean of
    what a local step at w would take, so that - g(w) + c is zero in the mean.
    """
    batches, n = fed.batches[client], fed.size(client)
    return sum(len(b) / n * local_gradient(fed, w, b, local, i) for b in batches)


def zeros(fed: Federation) -> dict[str, Vector]:
    """A zero vector for every client."""
    return {k: np.zeros_like(fed.initial) for k in fed.batches}


def mean(vectors: dict[str, Vector]) -> Vector:
    """mean_S."""
    return sum(vectors.values()) / len(vectors)


def by_client(**vectors: dict[str, Vector]) -> dict[str, dict[str, Vector]]:
    """{name: {client: vector}} turned inside out."""
    clients = next(iter(vectors.values()))
    return {k: {name: own[k] for name, own in vectors.items()} for k in clients}


# ---------------------------------------------------------------- a proximal term


def fedprox(fed: Federation, local: Local, mu: float, rate: Rate | None = None) -> list[Round]:
    """FedProx (Li 2020): local gradient + mu (w_k - w)."""
    w, history = fed.initial.copy(), []
    for i, sampled in enumerate(fed.participants, start=1):
        eta = rate_of(local, rate, i)
        models = {}
        for k in sampled:

            def step(w_k: Vector, batch: np.ndarray, w=w, i=i) -> Vector:
                return local_gradient(fed, w_k, batch, local, i) + mu * (w_k - w)

            models[k] = walk(fed, k, w, local, step, eta)
        w = w - pseudo_gradient(fed, w, models)
        history.append(Round(w))
    return history


def fedacg(
    fed: Federation, local: Local, lam: float, beta: float, rate: Rate | None = None
) -> list[Round]:
    """FedACG (Kim 2022): clients start ahead, at w + lam m, and are tied to that point."""
    w, m, history = fed.initial.copy(), np.zeros_like(fed.initial), []
    for i, sampled in enumerate(fed.participants, start=1):
        eta = rate_of(local, rate, i)
        w_start = w + lam * m
        models = {}
        for k in sampled:

            def step(w_k: Vector, batch: np.ndarray, w_start=w_start, i=i) -> Vector:
                return local_gradient(fed, w_k, batch, local, i) + beta * (w_k - w_start)

            models[k] = walk(fed, k, w_start, local, step, eta)
        m = lam * m + mean({k: w_k - w_start for k, w_k in models.items()})
        w = w + m
        history.append(Round(w, {"m": m}))
    return history


# ---------------------------------------------------------------- control variates


def scaffold(
    fed: Federation,
    local: Local,
    eta_g: float = 1.0,
    rate: Rate | None = None,
    count_momentum: bool = False,
) -> list[Round]:
    """SCAFFOLD (Karimireddy 2020), option II; with SAM's gradient in place of g it is FedGamma.

    g - c_k + c; c_k+ = c_k - c + (w - w_k)/(K_k eta); w <- w - eta_g mean_S(w - w_k);
    c <- c + 1/|K| sum_S (c_k+ - c_k). ``count_momentum``: divided not by K_k but by what momentum
    makes of K_k steps.
    """
    w, c, controls, history = fed.initial.copy(), np.zeros_like(fed.initial), zeros(fed), []
    for i, sampled in enumerate(fed.participants, start=1):
        eta = rate_of(local, rate, i)
        models, moves = {}, {}
        for k in sampled:

            def step(w_k: Vector, batch: np.ndarray, c_k=controls[k], c=c, i=i) -> Vector:
                return local_gradient(fed, w_k, batch, local, i) - c_k + c

            models[k] = walk(fed, k, w, local, step, eta)
            steps = num_steps(fed, k, local)
            if count_momentum:
                steps = path_length(steps, local.momentum)
            new = controls[k] - c + (w - models[k]) / (steps * eta)
            moves[k] = new - controls[k]
            controls = controls | {k: new}
        w = w - eta_g * mean({k: w - w_k for k, w_k in models.items()})
        c = c + sum(moves.values()) / fed.num_clients
        history.append(Round(w, {"c": c}, by_client(c=controls)))
    return history


# ---------------------------------------------------------------- a momentum that clients use


def fedcm(
    fed: Federation,
    local: Local,
    a: float,
    rate: Rate | None = None,
    count_momentum: bool = False,
    by_samples: bool = False,
) -> list[Round]:
    """FedCM (Xu 2021): step with a g + (1-a) D; D <- mean_S((w - w_k)/(eta K_k)); w <- w - eta_g D.

    eta_g is eta times the harmonic mean of K_k, that is eta K where all are alike; ``by_samples``:
    FedAvg's server rule instead. ``count_momentum`` as in :func:`scaffold`.
    """
    w, d, history = fed.initial.copy(), np.zeros_like(fed.initial), []
    for i, sampled in enumerate(fed.participants, start=1):
        eta = rate_of(local, rate, i)
        models = {}
        for k in sampled:

            def step(w_k: Vector, batch: np.ndarray, d=d, i=i) -> Vector:
                return a * local_gradient(fed, w_k, batch, local, i) + (1 - a) * d

            models[k] = walk(fed, k, w, local, step, eta)
        steps = {k: num_steps(fed, k, local) for k in sampled}
        if count_momentum:
            steps = {k: path_length(n, local.momentum) for k, n in steps.items()}
        d = mean({k: (w - w_k) / (eta * steps[k]) for k, w_k in models.items()})
        eta_g = eta * len(steps) / sum(1 / n for n in steps.values())
        w = w - (pseudo_gradient(fed, w, models) if by_samples else eta_g * d)
        history.append(Round(w, {"d": d}))
    return history


def mime(
    fed: Federation, local: Local, b: float, lite: bool = False, rate: Rate | None = None
) -> list[Round]:
    """MIME and MIMELite (Karimireddy 2020a); b = 0 is MIME-SGD.

    c = mean_S of the full-batch gradients at w; step with (1-b)(g(w_k) - g(w) + c) + b m, both g on
    the step's minibatch; w <- mean_S(w_k); m <- (1-b) c + b m. MIMELite leaves - g(w) + c out.
    """
    w, m, history = fed.initial.copy(), np.zeros_like(fed.initial), []
    for i, sampled in enumerate(fed.participants, start=1):
        eta = rate_of(local, rate, i)
        c = mean({k: full_gradient(fed, k, w, local, i) for k in sampled})
        models = {}
        for k in sampled:

            def step(w_k: Vector, batch: np.ndarray, w=w, m=m, c=c, i=i) -> Vector:
                g = local_gradient(fed, w_k, batch, local, i)
                if not lite:
                    g = g - local_gradient(fed, w, batch, local, i) + c
                return (1 - b) * g + b * m

            models[k] = walk(fed, k, w, local, step, eta)
        m = (1 - b) * c + b * m
        w = mean(models)
        history.append(Round(w, {"m": m}))
    return history


# ---------------------------------------------------------------- duals


def adabest(
    fed: Federation, local: Local, beta: float, mu: float, rate: Rate | None = None
) -> list[Round]:
    """AdaBest (Varno 2022): g - h_k; h_k <- h_k/(t - t_k) + mu (w - w_k), t_k its last round.

    h_k is zero before a client's first round, so what t_k is then does not matter. On the server
    h <- beta (wbar_prev - wbar), w <- wbar - h, with wbar = mean_S(w_k); wbar_0 is the first model.
    """
    w, wbar, own, last, history = fed.initial.copy(), fed.initial.copy(), zeros(fed), {}, []
    for t, sampled in enumerate(fed.participants, start=1):
        eta = rate_of(local, rate, t)
        models = {}
        for k in sampled:

            def step(w_k: Vector, batch: np.ndarray, h_k=own[k], t=t) -> Vector:
                return local_gradient(fed, w_k, batch, local, t) - h_k

            models[k] = walk(fed, k, w, local, step, eta)
            own = own | {k: own[k] / (t - last.get(k, 0)) + mu * (w - models[k])}
            last[k] = t
        before, wbar = wbar, mean(models)
        h = beta * (before - wbar)
        w = wbar - h
        history.append(Round(w, {"h": h, "wbar": wbar}, by_client(h=own)))
    return history


def fedspeed(
    fed: Federation,
    local: Local,
    rho: float,
    a: float,
    lam: float,
    rate: Rate | None = None,
    all_corrections: bool = False,
) -> list[Round]:
    """FedSpeed (Sun 2023b): a blend of the gradient and SAM's, and a prox-correction.

    gt = (1-a) g(w_k) + a g(w_k + rho g/||g||); step with gt - ghat_k + (w_k - w)/lam;
    ghat_k <- ghat_k - (w_k - w)/lam; w <- mean_S(w_k - lam ghat_k). ``all_corrections``: the
    released code's w <- mean_S(w_k) - lam mean_K(ghat_k), where K is all clients.
    """
    w, duals, history = fed.initial.copy(), zeros(fed), []
    for i, sampled in enumerate(fed.participants, start=1):
        eta = rate_of(local, rate, i)
        sent = {}
        for k in sampled:

            def step(w_k: Vector, batch: np.ndarray, w=w, dual=duals[k]) -> Vector:
                g1 = fed.gradient(w_k, batch)
                g2 = fed.gradient(w_k + sam_perturbation(g1, rho), batch)
                return (1 - a) * g1 + a * g2 - dual + (w_k - w) / lam

            w_k = walk(fed, k, w, local, step, eta)
            duals = duals | {k: duals[k] - (w_k - w) / lam}
            sent[k] = w_k if all_corrections else w_k - lam * duals[k]
        everyone = sum(duals.values()) / fed.num_clients
        w = mean(sent) - lam * everyone if all_corrections else mean(sent)
        history.append(Round(w, {"mean dual": everyone}, by_client(dual=duals)))
    return history


def fedsmoo(
    fed: Federation,
    local: Local,
    rho: float,
    beta: float,
    rate: Rate | None = None,
    rho0: float | None = None,
    rho_rounds: int = 0,
) -> list[Round]:
    """FedSMOO (Sun 2023a): FedDyn, and the same idea for the perturbation of SAM.

    Every step d = g - mu_k - s, e = rho d/||d||, mu_k <- mu_k + (e - s), the gradient at w_k + e,
    FedDyn's correction. The client also sends mu_k - e of its last step; s <- rho m/||m|| with
    m = mean_S of those; the rest of the server is FedDyn's.
    """
    w, s, sigma = fed.initial.copy(), np.zeros_like(fed.initial), np.zeros_like(fed.initial)
    sigmas, mus, history = zeros(fed), zeros(fed), []
    for i, sampled in enumerate(fed.participants, start=1):
        eta, radius = rate_of(local, rate, i), scheduled_rho(rho, rho0, rho_rounds, i)
        models, sent = {}, {}
        for k in sampled:
            seen = {"mu": mus[k], "e": None}

            def step(
                w_k: Vector, batch: np.ndarray, w=w, s=s, dual=sigmas[k], seen=seen, radius=radius
            ) -> Vector:
                e = sam_perturbation(fed.gradient(w_k, batch) - seen["mu"] - s, radius)
                seen.update(mu=seen["mu"] + (e - s), e=e)
                return fed.gradient(w_k + e, batch) - dual + (w_k - w) / beta

            models[k] = walk(fed, k, w, local, step, eta)
            mus = mus | {k: seen["mu"]}
            sigmas = sigmas | {k: sigmas[k] - (models[k] - w) / beta}
            sent[k] = seen["mu"] - seen["e"]
        s = sam_perturbation(mean(sent), radius)
        sigma = sigma - sum(w_k - w for w_k in models.values()) / (beta * fed.num_clients)
        w = mean(models) - beta * sigma
        history.append(Round(w, {"s": s, "sigma": sigma}, by_client(mu=mus, sigma=sigmas)))
    return history


# ---------------------------------------------------------------- weights by generalization gap


def feddg_ga(
    fed: Federation, local: Local, loss: Callable[[Vector, str], float], step_size: float
) -> list[Round]:
    """FedDG-GA (Zhang 2023): a_k + s gap_k / max |gap|, clipped, scaled; s falls linearly.

    ``loss``: of a model on all samples of a client.
    """
    w, history, last = fed.initial.copy(), [], {}
    a = dict.fromkeys(fed.batches, 1 / fed.num_clients)
    for i, sampled in enumerate(fed.participants, start=1):
        gaps = {k: loss(w, k) - last[k] for k in sampled if k in last}
        largest = max(map(abs, gaps.values()), default=0)
        s = step_size * (1 - (i - 1) / len(fed.participants))
        a |= {k: min(1, max(0, a[k] + s * gap / largest)) for k, gap in gaps.items() if largest}
        a = {k: share / sum(a.values()) for k, share in a.items()}
        models = {}
        for k in sampled:

            def step(w_k: Vector, batch: np.ndarray, i=i) -> Vector:
                return local_gradient(fed, w_k, batch, local, i)

            models[k] = walk(fed, k, w, local, step, local.lr)
        total = sum(a[k] for k in sampled)
        w = sum(a[k] / total * models[k] for k in sampled)
        last |= {k: loss(models[k], k) for k in sampled}
        history.append(Round(w, {"shares": np.array([a[k] for k in fed.batches])}))
    return history
