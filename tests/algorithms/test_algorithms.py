"""What the equations of tests/oracles do not show: limits to the bit, traffic, states, refusals."""

import pytest
import torch
import toyalgorithms
import toyquad
import toyseg
from toyalgorithms import EQUAL_SIZES, FEDAVG, SAM, TRAINED

from fedseg.core.algorithm import Algorithm
from fedseg.core.server import Aggregate
from fedseg.errors import ConfigError, TrainingError
from fedseg.optim import OptimWrapper
from fedseg.registry import ALGORITHMS, OPTIM_WRAPPERS, build

PARAMETERS = 255
FEDDYN = {"type": "FedDyn", "beta": 5.0}
FEDSMOO = {"type": "FedSMOO", "rho": 0.1, "beta": 5.0}
FEDSPEED = {"type": "FedSpeed", "rho": 0.1, "alpha": 0.7, "lam": 5.0}
GLOSS = {"type": "FedGloSS", "rho_server": 0.1, "beta": 10.0}
ADABEST = {"type": "AdaBest", "mu": 0.3, "beta": 0.8}
MIME = {"type": "MIME", "momentum": 0.6}
WITH_SAM = {"optim_wrapper": SAM}
ASAM = {"optim_wrapper": {**SAM, "type": "ASAMOptimWrapper", "rho": 0.5, "eta": 0.2}}
SWA = {"averaging": {"type": "SWA", "start": 1, "cycle": 1}}
ONE_STEP = {"train_cfg": {"local_steps": 1}}


@ALGORITHMS.register_module()
class TwoVectors(Algorithm):
    """Sends a further vector down and two more up, as algorithms with control variates do."""

    client_vectors = ("mine",)
    server_vectors = ("control",)
    weightings = {"delta": "samples", "ones": "samples", "control": "samples"}

    def broadcast(self, server):
        return server.message(server.w, control=server.state["control"])

    def finish(self, client):
        client.state["mine"].add_(1)
        update = super().finish(client)
        update.vectors["ones"] = torch.ones_like(client.w)
        update.vectors["control"] = client.extras["control"] + client.state["mine"]
        return update

    def step(self, server, aggregate):
        assert torch.equal(aggregate.mean("ones"), torch.ones_like(aggregate.mean("ones")))
        server.state["control"] = aggregate.mean("control")
        server.w.sub_(aggregate.mean("delta").to(server.w.dtype))


@ALGORITHMS.register_module()
class KeepsDelta(Algorithm):
    """Keeps a vector whose norm would be called as one that every history has."""

    server_vectors = ("delta",)

    def step(self, server, aggregate):
        server.state["delta"] += 100
        server.w.sub_(aggregate.mean("delta").to(server.w.dtype))


FIRST = toyseg.merge(EQUAL_SIZES, {"train_cfg": {"max_rounds": 1}})
ADAM = {"server_optim": {"type": "Adam", "lr": 0.05}}
FROZEN = {**FEDSPEED, "alpha": 0.0, "freeze_statistics": True}
# (algorithm, what it is the same bits as, changes); uniform means need clients of equal size
LIMITS = {
    "FedProx, mu = 0": ({"type": "FedProx", "mu": 0.0, **ADAM}, {**FEDAVG, **ADAM}, {}),
    "FedProx, mu = 0, SAM": ({"type": "FedProx", "mu": 0.0}, FEDAVG, {**WITH_SAM, **SWA}),
    "FedProx, one step": (
        {"type": "FedProx", "mu": 3.0},
        FEDAVG,
        {"train_cfg": {"local_steps": 1, "local_epochs": None}},
    ),
    "FedACG, lam = beta = 0": (
        {"type": "FedACG", "lam": 0.0, "beta": 0.0},
        FEDAVG,
        {**EQUAL_SIZES, **WITH_SAM},
    ),
    "FedACG, first round": (
        {"type": "FedACG", "lam": 0.9, "beta": 2.0},
        {"type": "FedProx", "mu": 2.0},
        FIRST,
    ),
    "AdaBest, mu = beta = 0": ({**ADABEST, "mu": 0.0, "beta": 0.0}, FEDAVG, {**EQUAL_SIZES, **SWA}),
    "FedDGGA, step size 0": ({"type": "FedDGGA", "step_size": 0.0}, FEDAVG, EQUAL_SIZES),
    "FedCM, alpha = 1": ({"type": "FedCM", "alpha": 1.0}, FEDAVG, EQUAL_SIZES),
    "FedCM by samples, alpha = 1": (
        {"type": "FedCM", "alpha": 1.0, "weigh_samples": True, **ADAM},
        {**FEDAVG, **ADAM},
        WITH_SAM,
    ),
    "MIMELite, b = 0": ({"type": "MIMELite"}, FEDAVG, EQUAL_SIZES),
    "SCAFFOLD, first round": ({"type": "SCAFFOLD"}, FEDAVG, FIRST),
    "SCAFFOLD, counted without momentum": (
        {"type": "SCAFFOLD", "count_momentum": True},
        {"type": "SCAFFOLD"},
        {},
    ),
    "FedGamma, first round": ({"type": "FedGamma"}, FEDAVG, {**FIRST, **WITH_SAM}),
    "FedGamma": ({"type": "FedGamma"}, {"type": "SCAFFOLD"}, WITH_SAM),
    "FedGamma, ASAM": ({"type": "FedGamma"}, {"type": "SCAFFOLD"}, ASAM),
    "FedSMOO, rho = 0": ({**FEDSMOO, "rho": 0.0, "freeze_statistics": True}, FEDDYN, {}),
    "FedSpeed, alpha = 0": ({**FROZEN, "rho": 3.0}, {**FROZEN, "rho": 0.0}, {}),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_are_the_same_bits(tmp_path, name):
    """With BatchNorm and clients of unequal size; averaged models as well."""
    algorithm, other, changes = LIMITS[name]
    one = toyalgorithms.run(tmp_path / "a", algorithm, **changes)
    two = toyalgorithms.run(tmp_path / "b", other, **changes)
    assert toyalgorithms.model_differences(one, two) == []


def test_fedacgs_statistics_have_no_momentum(tmp_path):
    """BatchNorm's are the participants' mean, as FedAvg's."""
    first = {"train_cfg": {"max_rounds": 1}}
    algorithms = {"type": "FedACG", "lam": 0.9, "beta": 0.0}, FEDAVG
    runs = (toyalgorithms.run(tmp_path / a["type"], a, **first) for a in algorithms)
    states = (toyseg.checkpoint(config)["state_dict"] for config in runs)
    one, other = ({n: t for n, t in state.items() if "running" in n} for state in states)
    assert len(one) == 4 and toyseg.differences(one, other) == []


def test_both_exchanges_of_a_round_see_the_same_batches(tmp_path):
    """Without a perturbation the second exchange of NaiveFedGloSS repeats the first."""
    none = {"type": "NaiveFedGloSS", "rho_server": 0.0, "admm": False}
    one = toyseg.checkpoint(toyalgorithms.run(tmp_path / "a", none))["state_dict"]
    two = toyseg.checkpoint(toyalgorithms.run(tmp_path / "b", FEDAVG))["state_dict"]
    for name, tensor in two.items():
        torch.testing.assert_close(one[name], tensor, rtol=1e-6, atol=1e-7)


# ---------------------------------------------------------------- traffic, states, history

# name: (config, a client's vectors, the server's)
ALL = {
    "FedAvg": (FEDAVG, set(), set()),
    "FedProx": ({"type": "FedProx", "mu": 0.1}, set(), set()),
    "SCAFFOLD": ({"type": "SCAFFOLD"}, {"control"}, {"control"}),
    "FedGamma": ({"type": "FedGamma"}, {"control"}, {"control"}),
    "FedCM": ({"type": "FedCM", "alpha": 0.1}, set(), {"direction"}),
    "FedACG": ({"type": "FedACG", "lam": 0.8, "beta": 0.01}, set(), {"momentum"}),
    "AdaBest": ({**ADABEST, "mu": 0.02}, {"h", "last_round"}, {"h"}),
    "FedDyn": (FEDDYN, {"sigma"}, {"sigma"}),
    "FedGloSS": (GLOSS, {"sigma"}, {"previous_delta", "sigma"}),
    "FedGloSS without ADMM": (
        {"type": "FedGloSS", "rho_server": 0.1, "admm": False},
        set(),
        {"previous_delta"},
    ),
    "FedSMOO": (FEDSMOO, {"mu", "sigma"}, {"s", "sigma"}),
    "FedSpeed": (FEDSPEED, {"ghat"}, set()),
    "FedSpeed, all corrections": ({**FEDSPEED, "all_corrections": True}, {"ghat"}, {"ghat"}),
    "MIME": (MIME, set(), {"m"}),
    "MIMELite": ({**MIME, "type": "MIMELite"}, set(), {"m"}),
    "TwoVectors": ({"type": "TwoVectors"}, {"mine"}, {"control"}),
}


def run(folder, name, **changes):
    """A run of an algorithm; FedGamma's local optimizer is SAM."""
    if name == "FedGamma":
        changes = {"optim_wrapper": SAM, **changes}
    return toyalgorithms.run(folder, ALL[name][0], **changes)


@pytest.fixture(scope="module")
def kept_sums():
    """(tensor, its version) of what the sums of a run handed out to be read only."""
    handed_out = []

    def record(method):
        def call(self, *arguments):
            tensor = method(self, *arguments)
            handed_out.append((tensor, tensor._version))
            return tensor

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("total", "payload"):
            patch.setattr(Aggregate, name, record(getattr(Aggregate, name)))
        yield handed_out


@pytest.fixture(scope="module")
def runs(tmp_path_factory, kept_sums):
    folder = tmp_path_factory.mktemp("algorithms")
    return {name: run(folder / name, name) for name in ALL}


@pytest.mark.parametrize("name", ALL)
def test_only_participants_keep_anything(runs, name):
    _, client_vectors, server_vectors = ALL[name]
    states = toyseg.client_states(runs[name]).get("clients", {})
    assert set(states) == (TRAINED if client_vectors else set())
    for state in states.values():
        assert set(state) == client_vectors
        vectors = [tensor for tensor in state.values() if tensor.dim()]
        assert all(t.dtype == torch.float32 and t.abs().max() > 0 for t in vectors)
    server = toyseg.checkpoint(runs[name])["server"]["state"]
    kept = {vector for vector, tensor in server.items() if tensor.abs().max() > 0}
    assert kept == server_vectors
    assert all(tensor.dtype == torch.float64 for tensor in server.values())


def test_no_algorithm_changes_a_sum_that_others_read(runs, kept_sums):
    assert len(kept_sums) > 20
    assert all(tensor._version == version for tensor, version in kept_sums)


@pytest.mark.parametrize("name", ALL)
def test_the_history_has_the_norm_of_what_the_server_keeps(runs, name):
    server = toyseg.checkpoint(runs[name])["server"]["state"]
    line = toyseg.history(runs[name])[-1]
    for vector in ALL[name][2] - {"previous_delta"}:  # whose norm is ``norm_delta``
        assert line[f"norm_{vector}"] == pytest.approx(float(server[vector].norm()), rel=1e-12)


def test_a_figure_does_not_take_a_name_of_the_history(tmp_path, monkeypatch):
    """A kept vector ``delta`` would have the name of the pseudo-gradient's norm."""
    message = "KeepsDelta.metrics: 'norm_delta' is taken in the history: choose another name"
    with pytest.raises(ConfigError, match=message):
        toyalgorithms.run(tmp_path / "kept", {"type": "KeepsDelta"})
    for name in ("lr", "metrics", "epsilon"):
        monkeypatch.setattr(KeepsDelta, "metrics", lambda self, server, name=name: {name: 5.0})
        with pytest.raises(ConfigError, match=f"KeepsDelta.metrics: '{name}' is taken"):
            toyalgorithms.run(tmp_path / name, {"type": "KeepsDelta"})


@pytest.mark.parametrize("name", ["SCAFFOLD", "FedCM", "AdaBest", "FedSMOO", "MIME"])
def test_double_precision_is_the_same_path(runs, tmp_path, name):
    double = toyseg.checkpoint(run(tmp_path, name, dtype="float64"))["state_dict"]
    single = toyseg.checkpoint(runs[name])["state_dict"]
    for key, tensor in double.items():
        if tensor.is_floating_point():
            assert tensor.dtype == torch.float64
            torch.testing.assert_close(single[key].double(), tensor, rtol=1e-3, atol=1e-4)


def test_clients_keep_their_own_vectors(runs):
    """Zeros at the first participation, kept afterwards, nobody else's."""
    states = toyseg.client_states(runs["TwoVectors"])["clients"]
    kept = {client: float(state["mine"].max()) for client, state in states.items()}
    assert kept == {"a": 2, "b": 2, "c": 1, "f": 1}
    for received, sent in toyalgorithms.bytes_of(runs["TwoVectors"]):  # buffers once each way
        buffers = 4 * 24 + 16
        assert received == 2 * (4 * 2 * PARAMETERS + buffers)
        assert sent == 2 * (4 * 3 * PARAMETERS + buffers)


# ---------------------------------------------------------------- clients that come and go


def test_a_client_rejected_in_both_exchanges_is_counted_in_both(tmp_path):
    config = toyalgorithms.run(
        tmp_path,
        {**GLOSS, "type": "NaiveFedGloSS"},
        custom_hooks=[{"type": "PoisonHook", "clients": ["b"]}],
    )
    rejected = toyseg.history(config)[0]["rejected"]
    assert [(r["client"], r["exchange"]) for r in rejected] == [("b", 0), ("b", 1)]
    assert set(toyseg.client_states(config)["clients"]) == TRAINED - {"b"}


# ---------------------------------------------------------------- steps and rates that divide


def test_a_learning_rate_of_zero_stops_a_run_that_divides_by_it(tmp_path):
    schedule = [{"type": "MultiStepLR", "milestones": [1], "gamma": 0.0}]
    with pytest.raises(TrainingError, match=r"round 2: the local learning rate is 0"):
        toyquad.run(tmp_path, {"type": "SCAFFOLD"}, param_scheduler=schedule)


@pytest.mark.filterwarnings("ignore:algorithm. .* divides by K_k eta")
@pytest.mark.parametrize(
    ("algorithm", "vector"),
    [({"type": "SCAFFOLD"}, "control"), ({"type": "FedCM", "alpha": 0.1}, "direction")],
    ids=["SCAFFOLD", "FedCM"],
)
def test_momentum_has_to_be_counted(tmp_path, algorithm, vector):
    """Divided by K_k eta alone, the correction feeds on itself."""
    heavy = {"optim_wrapper": {"optimizer": {"lr": 0.02, "momentum": 0.9}}}
    heavy = toyseg.merge(toyquad.long(12, local_steps=8), heavy)
    growth = []
    for counted in (True, False):
        options = {**algorithm, "count_momentum": counted}
        config = toyquad.run(tmp_path / str(counted), options, **heavy)
        norms = [line[f"norm_{vector}"] for line in toyseg.history(config)]
        growth.append(norms[-1] / norms[0])
    assert growth[0] < 10 and growth[1] > 100


# ---------------------------------------------------------------- a second pass at other weights


@pytest.mark.parametrize(
    ("algorithm", "changes", "passes"),
    [
        ({**FEDSMOO, "freeze_statistics": False}, {}, 2),
        ({**FEDSMOO, "freeze_statistics": True}, {}, 1),
        ({**FEDSPEED, "freeze_statistics": False}, {}, 2),
        ({**FEDSPEED, "freeze_statistics": True}, {}, 1),
        (FEDAVG, {}, 1),
        (FEDAVG, WITH_SAM, 2),
        (FEDAVG, {"optim_wrapper": {**SAM, "freeze_statistics": True}}, 1),
        # neither the full-batch gradient nor the pass at w counts
        ({"type": "MIME"}, {}, 1),
        ({"type": "MIME"}, WITH_SAM, 2),
        ({"type": "MIMELite"}, {}, 1),
        ({"type": "MIMELite"}, WITH_SAM, 2),
    ],
)
def test_running_statistics_are_those_of_the_local_steps(tmp_path, algorithm, changes, passes):
    first = {"client_sampler": toyseg.fixed("b"), "train_cfg": {"max_rounds": 1}}
    config = toyalgorithms.run(tmp_path, algorithm, **changes, **first)
    steps = toyseg.history(config)[0]["participants"][0]["steps"]
    counted = int(toyseg.checkpoint(config)["state_dict"]["bn1.num_batches_tracked"])
    assert counted == passes * steps


def test_both_passes_share_dropout(tmp_path):
    """Where they are at the same weights they are the same gradient."""
    dropout = {"model": {"dropout": 0.5}}
    one, two = (
        toyalgorithms.run(tmp_path / str(a), {**FEDSPEED, "rho": 0.0, "alpha": a}, **dropout)
        for a in (0.5, 0.0)
    )
    a, b = (toyseg.checkpoint(config)["state_dict"] for config in (one, two))
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- local optimizers that do not fit


@OPTIM_WRAPPERS.register_module()
class SignOptimWrapper(OptimWrapper):
    """A user's own: the signs of the gradient."""

    def gradient(self, client, replay=False):
        client.backward(replay)
        client.grad.sign_()


PLAIN = {"type": "OptimWrapper", "optimizer": {"type": "SGD", "lr": 0.1}}
OWN = {**PLAIN, "type": "SignOptimWrapper"}
ADAM_SAM = {"type": "SAMOptimWrapper", "rho": 0.1, "optimizer": {"type": "Adam", "lr": 0.1}}


@pytest.mark.parametrize(
    ("algorithm", "wrapper", "message"),
    [
        ({"type": "SCAFFOLD"}, ADAM_SAM, "SCAFFOLD computes a client's mean gradient"),
        ({"type": "FedCM", "alpha": 0.1}, ADAM_SAM, "FedCM computes a client's mean gradient"),
        ({"type": "FedGamma"}, ADAM_SAM, "FedGamma computes a client's mean gradient"),
        (FEDSMOO, OWN, r"optim_wrapper\.type: SignOptimWrapper.*FedSMOO"),
        (
            MIME,
            {**PLAIN, "optimizer": {"type": "SGD", "lr": 0.1, "momentum": 0.9}},
            r"optim_wrapper\.optimizer\.momentum: MIME uses",
        ),
    ],
)
def test_local_optimizers_that_do_not_fit(algorithm, wrapper, message):
    local, flat = toyalgorithms.wrapper(wrapper)
    with pytest.raises(ConfigError, match=message):
        build(ALGORITHMS, algorithm, "algorithm").setup(flat, local, max_rounds=1)
