"""What holds for each of the drift corrections: traffic, who keeps what, precision, resuming."""

import copy

import pytest
import torch
import toyalgorithms
import toyseg
from toyalgorithms import FEDAVG, PARTICIPANTS, SAM, TRAINED

# name: (config, vectors down, vectors up, a client's vectors, the server's)
CORRECTIONS = {
    "FedProx": ({"mu": 0.1}, 1, 1, set(), set()),
    "SCAFFOLD": ({}, 2, 2, {"control"}, {"control"}),
    "FedGamma": ({}, 2, 2, {"control"}, {"control"}),
    "FedCM": ({"alpha": 0.1}, 2, 1, set(), {"direction"}),
    "FedACG": ({"lam": 0.8, "beta": 0.01}, 1, 1, set(), {"momentum"}),
    "AdaBest": ({"mu": 0.02, "beta": 0.9}, 1, 1, {"h", "last_round"}, {"h"}),
}
FACTORS = {"SCAFFOLD": 2, "FedGamma": 2, "FedCM": 1.5}  # of FedAvg's traffic; of the others 1
PARAMETERS = 255
SGD_WITH_ALL = {"type": "SGD", "lr": 0.05, "momentum": 0.9, "weight_decay": 5e-4}


def algorithm(name):
    return {"type": name, **CORRECTIONS[name][0]}


def run(folder, name, **changes):
    """A run of an algorithm; FedGamma's local optimizer is SAM."""
    if name == "FedGamma":
        changes = {"optim_wrapper": SAM, **changes}
    return toyalgorithms.run(folder, algorithm(name), **changes)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A finished run of each algorithm, and of FedAvg."""
    folder = tmp_path_factory.mktemp("corrections")
    made = {name: run(folder / name, name) for name in CORRECTIONS}
    return {"FedAvg": toyalgorithms.run(folder / "FedAvg", FEDAVG), **made}


@pytest.mark.parametrize("name", CORRECTIONS)
def test_traffic(runs, name):
    """Buffers travel once each way, whatever else does."""
    _, down, up, _, _ = CORRECTIONS[name]
    fedavg = toyalgorithms.bytes_of(runs["FedAvg"])
    buffers = fedavg[0][0] - 2 * 4 * PARAMETERS  # two participants, float32
    assert buffers == 2 * (4 * 24 + 16)
    for (got_down, got_up), (one_down, one_up) in zip(
        toyalgorithms.bytes_of(runs[name]), fedavg, strict=True
    ):
        assert got_down - buffers == down * (one_down - buffers)
        assert got_up - buffers == up * (one_up - buffers)
        total, one = got_down + got_up - 2 * buffers, one_down + one_up - 2 * buffers
        assert total == FACTORS.get(name, 1) * one


@pytest.mark.parametrize("name", CORRECTIONS)
def test_only_participants_keep_anything(runs, name):
    _, _, _, client_vectors, server_vectors = CORRECTIONS[name]
    states = toyseg.client_states(runs[name]).get("clients", {})
    assert set(states) == (TRAINED if client_vectors else set())
    for state in states.values():
        assert set(state) == client_vectors
        vectors = [tensor for tensor in state.values() if tensor.dim()]
        assert all(t.dtype == torch.float32 and t.abs().max() > 0 for t in vectors)
    server = toyseg.checkpoint(runs[name])["server"]["state"]
    assert set(server) == server_vectors
    assert all(t.dtype == torch.float64 and t.abs().max() > 0 for t in server.values())


@pytest.mark.parametrize("name", CORRECTIONS)
def test_it_corrects(runs, name):
    """It leaves FedAvg's path; weights are finite, and the ledger is full."""
    one, other = (toyseg.checkpoint(runs[n])["state_dict"] for n in (name, "FedAvg"))
    assert toyseg.differences(one, other)
    assert all(torch.isfinite(t).all() for t in one.values())
    assert [len(line["participants"]) for line in toyseg.history(runs[name])] == [2, 2, 2]


@pytest.mark.parametrize("name", CORRECTIONS)
def test_double_precision_is_the_same_path(runs, tmp_path, name):
    double = toyseg.checkpoint(run(tmp_path, name, dtype="float64"))["state_dict"]
    single = toyseg.checkpoint(runs[name])["state_dict"]
    for key, tensor in double.items():
        if tensor.is_floating_point():
            assert tensor.dtype == torch.float64
            torch.testing.assert_close(single[key].double(), tensor, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", CORRECTIONS)
def test_states_on_disk_are_the_same_bits(runs, tmp_path, name):
    config = run(tmp_path, name, state_store={"keep": "disk"})
    assert toyseg.run_differences(config, runs[name]) == []


@pytest.mark.filterwarnings("ignore:algorithm. .* divides by K_k eta")
@pytest.mark.parametrize("name", CORRECTIONS)
def test_everything_at_once_resumes_bit_for_bit(tmp_path, name):
    """SAM, momentum, decay, clipping, SWA and SiloBN; interrupted after the second round."""
    changes = {
        "optim_wrapper": {**SAM, "optimizer": SGD_WITH_ALL, "clip_grad": {"max_norm": 1.0}},
        "averaging": {"type": "SWA", "start": 2, "cycle": 1},
        "batchnorm": {"type": "SiloBN"},
    }
    disarmed, armed = tmp_path / "disarmed", tmp_path / "armed"
    disarmed.touch()
    changes["custom_hooks"] = [{"type": "BreakHook", "round_": 3, "marker": str(disarmed)}]
    whole = toyalgorithms.run(tmp_path / "whole", algorithm(name), **changes)
    broken = copy.deepcopy(whole)
    broken["work_dir"] = str(tmp_path / "broken" / "run")
    broken["custom_hooks"][0]["marker"] = str(armed)
    with pytest.raises(RuntimeError, match="broken off in round 3"):
        toyseg.train(broken)
    toyseg.train(broken, resume=True)
    assert len(toyseg.history(broken)) == len(PARTICIPANTS)
    assert toyseg.run_differences(broken, whole) == []
