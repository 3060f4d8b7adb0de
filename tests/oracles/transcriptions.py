"""The algorithms' equations in NumPy, on flat float64 vectors, one class an algorithm.

Written to be read beside the papers, not to be fast, and without a look at the engine. Notation:
``w`` global model, ``w_k`` client k's model, ``S`` the clients of the round, ``K`` all clients,
``N_k`` samples of client k, ``N`` their sum over S, ``delta = sum_S N_k/N (w_start - w_k)`` the
pseudo-gradient, ``w_start`` what the clients received, ``K_k`` the local steps of client k, ``eta``
the local learning rate of the round. Rounds are counted from 1. ``mean_S`` is uniform over S, the
pseudo-gradient is weighted by N_k.

Momentum (fresh in every round) and weight decay act on what an algorithm makes of the gradient, at
the unperturbed w_k. Options have the names that they have in a config.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Vector = np.ndarray
Vectors = dict[str, Vector]  # by client
Rate = Callable[[int], float]  # round -> local learning rate
History = list[dict[str, Any]]  # after every round: ``w``, and what server and clients keep


# ---------------------------------------------------------------- what is trained


@dataclass(frozen=True)
class Federation:
    """Clients with their batches of one epoch, who takes part when, and the first model."""

    initial: Vector
    gradient: Callable[[Vector, np.ndarray], Vector]  # (w, sample indices) -> mean gradient
    scaled: np.ndarray  # bool per entry: ASAM's T is |w| + eta here, 1 elsewhere
    batches: dict[str, list[np.ndarray]]
    participants: list[list[str]]
    loss: Callable[[Vector, np.ndarray], float] | None = None  # (w, sample indices) -> mean loss

    def size(self, client: str) -> int:
        return sum(len(batch) for batch in self.batches[client])


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


def mean(vectors: Mapping[str, Vector]) -> Vector:
    return sum(vectors.values()) / len(vectors)


def path_length(k_steps: int, momentum: float) -> float:
    """(w - w_k)/(eta g) after k steps along one and the same g: K_k without momentum."""
    length = speed = 0.0
    for _ in range(k_steps):
        speed = momentum * speed + 1
        length += speed
    return length


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

    def __init__(self, lr: float, tau: float, betas: tuple[float, float] = (0.0, 0.0)) -> None:
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

    def second_moment(self, delta: Vector) -> Vector:
        return self.v + delta**2


SERVERS = {"SGD": ServerSGD, "Adam": ServerAdam, "Yogi": ServerYogi, "Adagrad": ServerAdagrad}


class FedAvg:
    """FedAvg and FedOpt: w <- ServerOpt(w, delta); others replace what they do differently.

    ``uniform``: delta is the mean over the clients, whatever their sizes.

    Args:
        fed: the problem. local: how clients train. rate: their learning rate, if it changes.
        options: of the algorithm.
    """

    server_optim: Mapping[str, Any] = {"type": "SGD"}
    uniform = False

    def __init__(self, fed: Federation, local: Local, rate: Rate | None = None, **options: Any):
        self.fed, self.local, self.rate = fed, local, rate or (lambda i: local.lr)
        self.i, self.w = 1, fed.initial.copy()
        vars(self).update(options)
        self.set_up()

    def zeros(self) -> Vector:
        return np.zeros_like(self.w)

    def of_each(self) -> Vectors:
        """A zero vector for every client."""
        return {k: self.zeros() for k in self.fed.batches}

    @property
    def eta(self) -> float:
        return self.rate(self.i)

    def run(self) -> History:
        history = []
        for i, sampled in enumerate(self.fed.participants, start=1):
            self.i, self.sampled = i, sampled
            self.round()
            kept = vars(self).items()
            history.append({n: dict(v) if isinstance(v, dict) else v for n, v in kept})
        return history

    # ------------------------------------------------------------ clients

    def gradient(self, w: Vector, batch: np.ndarray) -> Vector:
        """The gradient that the local optimizer uses in this round, both passes on one batch."""
        g, local = self.fed.gradient(w, batch), self.local
        if local.kind == "sgd":
            return g
        rho = scheduled_rho(local.rho, local.rho0, local.rho_rounds, self.i)
        if local.kind == "sam":
            eps = sam_perturbation(g, rho)
        else:
            eps = asam_perturbation(w, g, rho, local.eta, self.fed.scaled)
        return self.fed.gradient(w + eps, batch)

    def full_gradient(self, k: str) -> Vector:
        """Gradient at w of client k's mean loss over all of its samples.

        With SAM or ASAM the perturbation is each minibatch's own, as it is in local steps: the mean
        of what a local step at w would take, so that - g(w) + c is zero in the mean.
        """
        n = self.fed.size(k)
        return sum(len(b) / n * self.gradient(self.w, b) for b in self.fed.batches[k])

    def direction(self, k: str, w_k: Vector, batch: np.ndarray) -> Vector:
        """What client k makes of the gradient."""
        return self.gradient(w_k, batch)

    def train(self, k: str, w_start: Vector) -> Vector:
        """w_k after E local epochs."""
        w_k, buffer, self.w_start = w_start.copy(), self.zeros(), w_start
        for _ in range(self.local.epochs):
            for batch in self.fed.batches[k]:
                g = self.direction(k, w_k, batch) + self.local.weight_decay * w_k
                buffer = self.local.momentum * buffer + g
                w_k = w_k - self.eta * buffer
        return w_k

    def train_all(self, w_start: Vector) -> Vectors:
        return {k: self.train(k, w_start) for k in self.sampled}

    def steps(self, k: str) -> float:
        """K_k: epochs times batches; ``count_momentum``: what momentum makes of them."""
        number = self.local.epochs * len(self.fed.batches[k])
        counted = getattr(self, "count_momentum", False)
        return path_length(number, self.local.momentum) if counted else number

    # ------------------------------------------------------------ server

    def delta(self, w_start: Vector, models: Vectors) -> Vector:
        """delta = sum_S N_k/N (w_start - w_k)."""
        n = sum(self.fed.size(k) for k in models)
        return sum(self.fed.size(k) / n * (w_start - w_k) for k, w_k in models.items())

    def set_up(self) -> None:
        kind = dict(self.server_optim)
        self.server = SERVERS[kind.pop("type")](**kind)

    def round(self) -> None:
        models = self.train_all(self.w)
        delta = self.w - mean(models) if self.uniform else self.delta(self.w, models)
        self.w = self.server.step(self.w, delta)


# ---------------------------------------------------------------- a proximal term


class FedProx(FedAvg):
    """FedProx (Li 2020): local gradient + mu (w_k - w)."""

    def direction(self, k, w_k, batch):
        return self.gradient(w_k, batch) + self.mu * (w_k - self.w)


class FedACG(FedAvg):
    """FedACG (Kim 2022): clients start ahead, at w + lam m, and are tied to that point."""

    def set_up(self):
        self.m = self.zeros()

    def direction(self, k, w_k, batch):
        return self.gradient(w_k, batch) + self.beta * (w_k - self.w_start)

    def round(self):
        models = self.train_all(self.w + self.lam * self.m)
        self.m = self.lam * self.m + mean(models) - self.w_start
        self.w = self.w + self.m


# ---------------------------------------------------------------- control variates


class SCAFFOLD(FedAvg):
    """SCAFFOLD (Karimireddy 2020), option II; with SAM's gradient in place of g it is FedGamma.

    g - c_k + c; c_k+ = c_k - c + (w - w_k)/(K_k eta); w <- w - eta_g mean_S(w - w_k);
    c <- c + 1/|K| sum_S (c_k+ - c_k). ``count_momentum``: divided not by K_k but by what momentum
    makes of K_k steps.
    """

    eta_g = 1.0

    def set_up(self):
        self.c, self.c_k = self.zeros(), self.of_each()

    def direction(self, k, w_k, batch):
        return self.gradient(w_k, batch) - self.c_k[k] + self.c

    def round(self):
        models, c, moved = self.train_all(self.w), self.c, 0.0
        for k, w_k in models.items():
            new = self.c_k[k] - c + (self.w - w_k) / (self.steps(k) * self.eta)
            moved = moved + new - self.c_k[k]
            self.c_k[k] = new
        self.c = c + moved / len(self.c_k)
        self.w = self.w - self.eta_g * (self.w - mean(models))


# ---------------------------------------------------------------- a momentum that clients use


class FedCM(FedAvg):
    """FedCM (Xu 2021): step with a g + (1-a) D; D <- mean_S((w - w_k)/(eta K_k)); w <- w - eta_g D.

    eta_g is eta times the harmonic mean of K_k, that is eta K where all are alike;
    ``weigh_samples``: FedAvg's server rule instead. ``count_momentum`` as in :class:`SCAFFOLD`.
    """

    weigh_samples = False

    def set_up(self):
        self.d = self.zeros()

    def direction(self, k, w_k, batch):
        return self.alpha * self.gradient(w_k, batch) + (1 - self.alpha) * self.d

    def round(self):
        models = self.train_all(self.w)
        steps = {k: self.steps(k) for k in models}
        self.d = mean({k: (self.w - w_k) / (self.eta * steps[k]) for k, w_k in models.items()})
        eta_g = self.eta * len(steps) / sum(1 / n for n in steps.values())
        self.w = self.w - (self.delta(self.w, models) if self.weigh_samples else eta_g * self.d)


class MIME(FedAvg):
    """MIME (Karimireddy 2020a); b = 0 is MIME-SGD.

    c = mean_S of the full-batch gradients at w; step with (1-b)(g(w_k) - g(w) + c) + b m, both g on
    the step's minibatch; w <- mean_S(w_k); m <- (1-b) c + b m.
    """

    momentum = 0.0

    def set_up(self):
        self.m = self.zeros()

    def corrected(self, w_k, batch):
        return self.gradient(w_k, batch) - self.gradient(self.w, batch) + self.c

    def direction(self, k, w_k, batch):
        return (1 - self.momentum) * self.corrected(w_k, batch) + self.momentum * self.m

    def round(self):
        self.c = mean({k: self.full_gradient(k) for k in self.sampled})
        models = self.train_all(self.w)
        self.m = (1 - self.momentum) * self.c + self.momentum * self.m
        self.w = mean(models)


class MIMELite(MIME):
    """MIMELite leaves - g(w) + c out."""

    def corrected(self, w_k, batch):
        return self.gradient(w_k, batch)


# ---------------------------------------------------------------- duals


class AdaBest(FedAvg):
    """AdaBest (Varno 2022): g - h_k; h_k <- h_k/(t - t_k) + mu (w - w_k), t_k its last round.

    h_k is zero before a client's first round, so what t_k is then does not matter. On the server
    h <- beta (wbar_prev - wbar), w <- wbar - h, with wbar = mean_S(w_k); wbar_0 is the first model.
    """

    def set_up(self):
        self.wbar, self.h_k, self.last = self.w, self.of_each(), {}

    def direction(self, k, w_k, batch):
        return self.gradient(w_k, batch) - self.h_k[k]

    def round(self):
        models = self.train_all(self.w)
        for k, w_k in models.items():
            faded = self.h_k[k] / (self.i - self.last.get(k, 0))
            self.h_k[k], self.last[k] = faded + self.mu * (self.w - w_k), self.i
        before, self.wbar = self.wbar, mean(models)
        self.h = self.beta * (before - self.wbar)
        self.w = self.wbar - self.h


class FedSpeed(FedAvg):
    """FedSpeed (Sun 2023b): a blend of the gradient and SAM's, and a prox-correction.

    gt = (1-a) g(w_k) + a g(w_k + rho g/||g||); step with gt - ghat_k + (w_k - w)/lam;
    ghat_k <- ghat_k - (w_k - w)/lam; w <- mean_S(w_k - lam ghat_k). ``all_corrections``: the
    released code's w <- mean_S(w_k) - lam mean_K(ghat_k), where K is all clients.
    """

    all_corrections = False

    def set_up(self):
        self.ghat_k = self.of_each()

    def direction(self, k, w_k, batch):
        g1 = self.fed.gradient(w_k, batch)
        g2 = self.fed.gradient(w_k + sam_perturbation(g1, self.rho), batch)
        blend = (1 - self.alpha) * g1 + self.alpha * g2
        return blend - self.ghat_k[k] + (w_k - self.w) / self.lam

    def round(self):
        models = self.train_all(self.w)
        for k, w_k in models.items():
            self.ghat_k[k] = self.ghat_k[k] - (w_k - self.w) / self.lam
        self.ghat = mean(self.ghat_k)
        own = mean({k: self.ghat_k[k] for k in models})
        self.w = mean(models) - self.lam * (self.ghat if self.all_corrections else own)


class FedDyn(FedAvg):
    """FedDyn (Acar 2021) in ADMM form, with alpha = 1/beta.

    g - sigma_k + (w_k - w_start)/beta; sigma_k of a client outlives the rounds it misses.
    """

    def set_up(self):
        self.sigma, self.sigma_k = self.zeros(), self.of_each()

    def direction(self, k, w_k, batch):
        return self.gradient(w_k, batch) - self.sigma_k[k] + (w_k - self.w_start) / self.beta

    def move_duals(self, models: Vectors) -> None:
        for k, w_k in models.items():
            self.sigma_k[k] = self.sigma_k[k] - (w_k - self.w_start) / self.beta

    def round(self):
        models = self.train_all(self.w)
        self.move_duals(models)
        moved = sum(w_k - self.w for w_k in models.values())
        self.sigma = self.sigma - moved / (self.beta * len(self.sigma_k))
        self.w = mean(models) - self.beta * self.sigma


class FedSMOO(FedDyn):
    """FedSMOO (Sun 2023a): FedDyn, and the same idea for the perturbation of SAM.

    Every step d = g - mu_k - s, e = rho d/||d||, mu_k <- mu_k + (e - s), the gradient at w_k + e,
    FedDyn's correction. The client also sends mu_k - e of its last step; s <- rho m/||m|| with
    m = mean_S of those; the rest of the server is FedDyn's.
    """

    rho0: float | None = None
    rho_rounds = 0

    def set_up(self):
        super().set_up()
        self.s, self.mu_k, self.e = self.zeros(), self.of_each(), {}

    @property
    def radius(self) -> float:
        return scheduled_rho(self.rho, self.rho0, self.rho_rounds, self.i)

    def direction(self, k, w_k, batch):
        d = self.fed.gradient(w_k, batch) - self.mu_k[k] - self.s
        self.e[k] = sam_perturbation(d, self.radius)
        self.mu_k[k] = self.mu_k[k] + (self.e[k] - self.s)
        g = self.fed.gradient(w_k + self.e[k], batch)
        return g - self.sigma_k[k] + (w_k - self.w) / self.beta

    def round(self):
        super().round()
        sent = mean({k: self.mu_k[k] - self.e[k] for k in self.sampled})
        self.s = sam_perturbation(sent, self.radius)


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


class FedGloSS(FedDyn):
    """FedGloSS (Caldarola 2025): SAM on the server, its perturbation from the last round's delta.

    ``released_rules``: the server's rules are those of the code that was released with the paper.
    """

    admm = True
    rho0: float | None = None
    rho_rounds = 0
    released_rules = dual_from_w = False

    def set_up(self):
        super().set_up()
        self.previous = self.zeros()  # no perturbation in the first round
        schedule, rounds = (self.rho0, self.rho_rounds), len(self.fed.participants)
        self.radii = [scheduled_rho(self.rho_server, *schedule, i + 1) for i in range(rounds)]
        if self.released_rules:
            self.radii = released_radii(self.rho_server, self.local.rho, *schedule, rounds)

    def direction(self, k, w_k, batch):
        return super().direction(k, w_k, batch) if self.admm else self.gradient(w_k, batch)

    def climbed(self) -> Vector:
        return self.previous

    def round(self):
        w_tilde = self.w + sam_perturbation(self.climbed(), self.radii[self.i - 1])
        models = self.train_all(w_tilde)
        delta = self.delta(w_tilde, models)
        if self.admm:
            self.move_duals(models)
            origin = self.w if self.dual_from_w else w_tilde  # algorithm 1, line 22
            moved = sum(w_k - origin for w_k in models.values())
            among = len(self.sigma_k) * (len(models) if self.released_rules else 1)
            self.sigma = self.sigma - moved / (self.beta * among)
        self.w = self.w - delta - (self.beta * self.sigma if self.admm else 0.0)
        self.previous = delta  # without the sigma term


class NaiveFedGloSS(FedGloSS):
    """The perturbation comes from an exchange from w with the clients of this round.

    That exchange trains by the client's rule and leaves every dual alone.
    """

    def climbed(self):
        return self.delta(self.w, self.train_all(self.w))


# ---------------------------------------------------------------- weights by generalization gap


class FedDGGA(FedAvg):
    """FedDG-GA (Zhang 2023): a_k + s/K gap_k / max |gap|, clipped, scaled; s falls linearly."""

    def set_up(self):
        self.a, self.last = {k: 1 / len(self.fed.batches) for k in self.fed.batches}, {}

    def loss(self, w: Vector, k: str) -> float:
        """Of a model on all samples of a client."""
        return self.fed.loss(w, np.concatenate(self.fed.batches[k]))

    def round(self):
        gaps = {k: self.loss(self.w, k) - self.last[k] for k in self.sampled if k in self.last}
        largest = max(map(abs, gaps.values()), default=0)
        s = self.step_size * (1 - (self.i - 1) / len(self.fed.participants)) / len(self.a)
        for k, gap in gaps.items():
            self.a[k] = min(1, max(0, self.a[k] + s * gap / largest)) if largest else self.a[k]
        self.a = {k: share / sum(self.a.values()) for k, share in self.a.items()}
        self.shares = np.array(list(self.a.values()))
        models, total = self.train_all(self.w), sum(self.a[k] for k in self.sampled)
        self.w = sum(self.a[k] / total * w_k for k, w_k in models.items())
        self.last |= {k: self.loss(w_k, k) for k, w_k in models.items()}


# ---------------------------------------------------------------- by the config's name

METHODS = {
    **{cls.__name__: cls for cls in (FedAvg, FedProx, FedACG, SCAFFOLD, FedCM, MIME, MIMELite)},
    **{cls.__name__: cls for cls in (AdaBest, FedSpeed, FedDyn, FedSMOO, FedGloSS, NaiveFedGloSS)},
    **{"FedDGGA": FedDGGA, "FedGamma": SCAFFOLD},
}


def transcribed(
    algorithm: Mapping[str, Any], fed: Federation, local: Local, rate: Rate | None = None
) -> History:
    options = dict(algorithm)
    return METHODS[options.pop("type")](fed, local, rate, **options).run()


def weights(history: History) -> list[Vector]:
    return [state["w"] for state in history]


# ---------------------------------------------------------------- averages for evaluation


def swa_lr(lr1: float, lr2: float, cycle: int, start_round: float, i: int) -> float:
    """Cyclic local learning rate from the start round on: t = (mod(i-1, c)+1)/c, lr1 to lr2."""
    if i < start_round or cycle == 1:
        return lr1
    t = ((i - 1) % cycle + 1) / cycle
    return (1 - t) * lr1 + t * lr2


def swa(
    fed: Federation, local: Local, start: float, cycle: int, lr2: float
) -> tuple[list[Vector], list[Vector]]:
    """FedAvg with SWA: the global models, and what is evaluated after every round.

    Collected in the rounds i with mod(i, c) = 0, i.e. after the lowest rate of a cycle.
    """
    begin = start * len(fed.participants)
    path = weights(FedAvg(fed, local, lambda i: swa_lr(local.lr, lr2, cycle, begin, i)).run())
    averaged, w_swa, n = [], None, 0
    for i, w in enumerate(path, start=1):
        if i >= begin and i % cycle == 0:
            w_swa = w if n == 0 else (n * w_swa + w) / (n + 1)
            n += 1
        averaged.append(w if w_swa is None else w_swa)
    return path, averaged


def wima(weights: list[Vector], window: int) -> list[Vector]:
    """WIMA: the mean of the last ``window`` global models, of all so far while there are fewer."""
    return [np.mean(weights[max(0, i - window) : i], axis=0) for i in range(1, len(weights) + 1)]
