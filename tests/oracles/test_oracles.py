"""The engine against the transcriptions, after every round of eight.

Partial participation, clients of unequal size, momentum and weight decay on, float64.
"""

from dataclasses import replace

import pytest
from harness import ASAM, LOCAL, SAM, TOLERANCE, federation, relative_error, run_engine
from transcriptions import (
    ServerAdagrad,
    ServerAdam,
    ServerSGD,
    ServerYogi,
    fedavg,
    feddyn,
    fedgloss,
    swa,
    wima,
)

SAM_RAMP = replace(SAM, rho0=0.001, rho_rounds=4)
ASAM_RAMP = replace(ASAM, rho0=0.001, rho_rounds=4)

FEDAVG = {"type": "FedAvg", "server_optim": {"type": "SGD", "lr": 1.0, "momentum": 0.0}}
FEDAVGM = {"type": "FedAvg", "server_optim": {"type": "SGD", "lr": 0.7, "momentum": 0.9}}
FEDADAM = {
    "type": "FedAvg",
    "server_optim": {"type": "Adam", "lr": 0.05, "betas": (0.9, 0.99), "tau": 1e-3},
}
FEDYOGI = {
    "type": "FedAvg",
    "server_optim": {"type": "Yogi", "lr": 0.05, "betas": (0.9, 0.99), "tau": 1e-3},
}
FEDADAGRAD = {"type": "FedAvg", "server_optim": {"type": "Adagrad", "lr": 0.05, "tau": 1e-3}}
FEDDYN = {"type": "FedDyn", "beta": 2.0}
FEDGLOSS = {"type": "FedGloSS", "rho_server": 0.1, "beta": 2.0, "admm": True}
RAMP = {"rho0": 0.001, "rho_rounds": 4}


def adam() -> ServerAdam:
    return ServerAdam(0.05, (0.9, 0.99), 1e-3)


# name: (algorithm's config, local training, the transcription's trace from the federation)
CASES = {
    "FedAvg": (FEDAVG, LOCAL, lambda fed: fedavg(fed, LOCAL, ServerSGD())),
    "FedAvg, uniform": (
        FEDAVGM | {"uniform": True},
        SAM,
        lambda fed: fedavg(fed, SAM, ServerSGD(0.7, 0.9), uniform=True),
    ),
    "FedAvgM": (FEDAVGM, LOCAL, lambda fed: fedavg(fed, LOCAL, ServerSGD(0.7, 0.9))),
    "FedAdam": (FEDADAM, LOCAL, lambda fed: fedavg(fed, LOCAL, adam())),
    "FedYogi": (
        FEDYOGI,
        LOCAL,
        lambda fed: fedavg(fed, LOCAL, ServerYogi(0.05, (0.9, 0.99), 1e-3)),
    ),
    "FedAdagrad": (FEDADAGRAD, LOCAL, lambda fed: fedavg(fed, LOCAL, ServerAdagrad(0.05, 1e-3))),
    "FedSAM": (FEDAVG, SAM, lambda fed: fedavg(fed, SAM, ServerSGD())),
    "FedASAM": (FEDAVG, ASAM, lambda fed: fedavg(fed, ASAM, ServerSGD())),
    "FedSAM, rho schedule": (FEDAVG, SAM_RAMP, lambda fed: fedavg(fed, SAM_RAMP, ServerSGD())),
    "FedASAM, rho schedule": (FEDAVG, ASAM_RAMP, lambda fed: fedavg(fed, ASAM_RAMP, ServerSGD())),
    "FedAdam, ASAM": (FEDADAM, ASAM, lambda fed: fedavg(fed, ASAM, adam())),
    "FedDyn": (FEDDYN, LOCAL, lambda fed: feddyn(fed, LOCAL, 2.0)),
    "FedDyn, SAM": (FEDDYN, SAM, lambda fed: feddyn(fed, SAM, 2.0)),
    "FedDyn, ASAM": (FEDDYN, ASAM, lambda fed: feddyn(fed, ASAM, 2.0)),
    "FedGloSS": (FEDGLOSS, LOCAL, lambda fed: fedgloss(fed, LOCAL, 0.1, 2.0)),
    "FedGloSS, SAM": (FEDGLOSS, SAM, lambda fed: fedgloss(fed, SAM, 0.1, 2.0)),
    "FedGloSS, rho schedules": (
        FEDGLOSS | RAMP,
        SAM_RAMP,
        lambda fed: fedgloss(fed, SAM_RAMP, 0.1, 2.0, **RAMP),
    ),
    "FedGloSS, released rules": (
        FEDGLOSS | RAMP | {"released_rules": True},
        SAM_RAMP,
        lambda fed: fedgloss(fed, SAM_RAMP, 0.1, 2.0, **RAMP, released=True),
    ),
    "FedGloSS, released rules, SGD, no schedule": (
        FEDGLOSS | {"released_rules": True},
        LOCAL,
        lambda fed: fedgloss(fed, LOCAL, 0.1, 2.0, released=True),
    ),
    "FedGloSS, dual from w": (
        FEDGLOSS | RAMP | {"dual_from_w": True},
        SAM_RAMP,
        lambda fed: fedgloss(fed, SAM_RAMP, 0.1, 2.0, **RAMP, dual_from_w=True),
    ),
    "NaiveFedGloSS, released rules, dual from w": (
        FEDGLOSS | {"type": "NaiveFedGloSS", "released_rules": True, "dual_from_w": True},
        LOCAL,
        lambda fed: fedgloss(fed, LOCAL, 0.1, 2.0, naive=True, released=True, dual_from_w=True),
    ),
    "FedGloSS without ADMM": (
        FEDGLOSS | {"admm": False},
        LOCAL,
        lambda fed: fedgloss(fed, LOCAL, 0.1, 2.0, admm=False),
    ),
    "FedGloSS without ADMM, SAM": (
        FEDGLOSS | {"admm": False},
        SAM,
        lambda fed: fedgloss(fed, SAM, 0.1, 2.0, admm=False),
    ),
    "NaiveFedGloSS": (
        FEDGLOSS | {"type": "NaiveFedGloSS"},
        LOCAL,
        lambda fed: fedgloss(fed, LOCAL, 0.1, 2.0, naive=True),
    ),
    "NaiveFedGloSS, SAM": (
        FEDGLOSS | {"type": "NaiveFedGloSS"} | RAMP,
        SAM,
        lambda fed: fedgloss(fed, SAM, 0.1, 2.0, naive=True, **RAMP),
    ),
    "NaiveFedGloSS without ADMM": (
        FEDGLOSS | {"type": "NaiveFedGloSS", "admm": False},
        SAM,
        lambda fed: fedgloss(fed, SAM, 0.1, 2.0, admm=False, naive=True),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_algorithm_with_minibatches(case, tmp_path):
    algorithm, local, transcribed = CASES[case]
    trace = run_engine(tmp_path, algorithm, local=local)
    assert relative_error(trace.weights, transcribed(federation())) <= TOLERANCE


@pytest.mark.parametrize("case", ["FedAvgM", "FedASAM", "FedDyn", "FedGloSS, SAM", "NaiveFedGloSS"])
def test_algorithm_with_full_batches(case, tmp_path):
    algorithm, local, transcribed = CASES[case]
    trace = run_engine(tmp_path, algorithm, local=local, batch_size="full")
    assert relative_error(trace.weights, transcribed(federation("full"))) <= TOLERANCE


@pytest.mark.parametrize(
    ("start", "cycle", "local"),
    [(0.75, 2, LOCAL), (0.5, 3, ASAM), (0.25, 2, SAM), (0.5, 1, LOCAL)],
    ids=["from round 6", "from round 4, cycle 3", "from round 2", "cycle 1 keeps the rate"],
)
def test_swa(start, cycle, local, tmp_path):
    averaging = {"type": "SWA", "start": start, "cycle": cycle, "lr2": 0.001}
    trace = run_engine(tmp_path, FEDAVG, local=local, averaging=averaging)
    weights, averaged = swa(federation(), local, ServerSGD(), start, cycle, 0.001)
    assert relative_error(trace.weights, weights) <= TOLERANCE
    compare_evaluated(trace, averaged, first=round(start * len(weights)))


@pytest.mark.parametrize("window", [3, 100])
def test_wima(window, tmp_path):
    averaging = {"type": "WIMA", "window": window}
    trace = run_engine(tmp_path, FEDAVGM, averaging=averaging)
    weights = fedavg(federation(), LOCAL, ServerSGD(0.7, 0.9))
    assert relative_error(trace.weights, weights) <= TOLERANCE
    compare_evaluated(trace, wima(weights, window), first=1)


def compare_evaluated(trace, expected, first):
    """From round ``first`` on; while there is no average the global model is evaluated."""
    actual = [
        w if mean is None else mean for w, mean in zip(trace.weights, trace.averaged, strict=True)
    ]
    assert trace.averaged[-1] is not None
    assert relative_error(actual[first - 1 :], expected[first - 1 :]) <= TOLERANCE
