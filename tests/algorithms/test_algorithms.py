"""What the equations of tests/oracles do not show: errors, traffic, exchanges, who keeps what."""

import pytest
import torch
import toyseg

from fedseg.core.algorithm import Algorithm
from fedseg.registry import ALGORITHMS

PARAMETERS = 255
BUFFERS = 24
COUNTERS = 16  # bytes


@ALGORITHMS.register_module()
class TwoVectors(Algorithm):
    """Sends a further vector down and two more up, as algorithms with control variates do."""

    client_vectors = ("mine",)
    server_vectors = ("control",)

    def broadcast(self, server):
        return server.message(server.w, {"control": server.state["control"].to(server.w.dtype)})

    def finish(self, client):
        client.state["mine"].add_(1)
        update = super().finish(client)
        update.vectors["ones"] = torch.ones_like(client.w)
        update.vectors["control"] = client.extras["control"] + client.state["mine"]
        return update

    def step(self, server, updates):
        assert torch.equal(updates.mean("ones"), torch.ones_like(updates.mean("ones")))
        server.state["control"] = updates.mean("control")
        server.w.sub_(updates.mean("delta").to(server.w.dtype))


def run(tmp_path, algorithm, **changes):
    config = toyseg.settings(
        tmp_path,
        **{
            **toyseg.PLAIN,
            "algorithm": {"_delete_": True, **algorithm},
            "val_dataloader": None,
            "val_evaluator": None,
            "client_sampler": {
                "_delete_": True,
                "type": "FixedSampler",
                "participants": [["a", "b"], ["a", "f"]],
            },
            "train_cfg": {"max_rounds": 2, "local_epochs": 1},
            **changes,
        },
    )
    return config, toyseg.train(config)


GLOSS = {"rho_server": 0.1, "beta": 10.0}


@ALGORITHMS.register_module()
class KeepsDelta(Algorithm):
    """Keeps a vector whose norm would be called as one that every history has."""

    server_vectors = ("delta",)

    def step(self, server, updates):
        server.state["delta"] += 100
        server.w.sub_(updates.mean("delta").to(server.w.dtype))


def test_a_kept_vector_does_not_take_the_name_of_the_pseudo_gradient(tmp_path):
    own, plain = (run(tmp_path / name, {"type": name})[0] for name in ("KeepsDelta", "FedAvg"))
    norms = [[line["norm_delta"] for line in toyseg.history(config)] for config in (own, plain)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-5)


@pytest.mark.parametrize(
    ("algorithm", "names"),
    [
        ({"type": "FedDyn", "beta": 10.0}, ["sigma"]),
        ({"type": "FedSMOO", "rho": 0.1, "beta": 10.0}, ["s", "sigma"]),
        ({"type": "FedGloSS", **GLOSS}, ["sigma"]),
        ({"type": "NaiveFedGloSS", **GLOSS}, ["sigma"]),
        ({"type": "FedGloSS", "rho_server": 0.1, "admm": False}, []),
        ({"type": "MIME", "momentum": 0.5}, ["m"]),
        ({"type": "TwoVectors"}, ["control"]),
    ],
    ids=lambda value: value.get("type") if isinstance(value, dict) else None,
)
def test_the_history_has_the_norm_of_what_the_server_keeps(tmp_path, algorithm, names):
    config, runner = run(tmp_path, algorithm)
    line = toyseg.history(config)[-1]
    kept = {f"norm_{name}": float(runner.server.state[name].norm()) for name in names}
    assert {k: v for k, v in line.items() if k.removeprefix("norm_") in runner.server.state} == kept
    assert all(norm > 0 for norm in kept.values())


@pytest.mark.parametrize(
    ("algorithm", "down", "up"),
    [
        ({"type": "FedAvg"}, 1, 1),
        ({"type": "FedDyn", "beta": 10.0}, 1, 1),
        ({"type": "FedGloSS", **GLOSS}, 1, 1),
        ({"type": "TwoVectors"}, 2, 3),
    ],
)
def test_bytes_of_a_round(tmp_path, algorithm, down, up):
    config, _ = run(tmp_path, algorithm)
    for line in toyseg.history(config):
        assert line["bytes_down"] == 2 * (4 * (down * PARAMETERS + BUFFERS) + COUNTERS)
        assert line["bytes_up"] == 2 * (4 * (up * PARAMETERS + BUFFERS) + COUNTERS)


def test_naive_fedgloss_costs_twice_and_counts_clients_once(tmp_path):
    config, _ = run(tmp_path, {"type": "NaiveFedGloSS", **GLOSS})
    one, _ = run(tmp_path / "one", {"type": "FedGloSS", **GLOSS})
    for naive, single in zip(toyseg.history(config), toyseg.history(one), strict=True):
        assert naive["bytes_down"] == 2 * single["bytes_down"]
        assert naive["bytes_up"] == 2 * single["bytes_up"]
        assert [p["client"] for p in naive["participants"]] == [
            p["client"] for p in single["participants"]
        ]


def test_clients_keep_their_own_vectors(tmp_path):
    """Zeros at the first participation, kept afterwards, nobody else's."""
    config, _ = run(tmp_path, {"type": "TwoVectors"})
    states = toyseg.client_states(config)["clients"]
    kept = {client: float(state["mine"].max()) for client, state in states.items()}
    assert kept == {"a": 2, "b": 1, "f": 1}
    # round 1: 0 + 1; round 2: that + 2 for the 5 images of a and + 1 for the 8 of f
    control = toyseg.checkpoint(config)["server"]["state"]["control"]
    torch.testing.assert_close(control, torch.full_like(control, 1 + (2 * 5 + 8) / 13))


def test_both_exchanges_of_a_round_see_the_same_batches(tmp_path):
    """Without a perturbation the second exchange of NaiveFedGloSS repeats the first."""
    none = {"rho_server": 0.0, "admm": False}
    naive, _ = run(tmp_path / "a", {"type": "NaiveFedGloSS", **none})
    single, _ = run(tmp_path / "b", {"type": "FedAvg"})
    one, two = (toyseg.checkpoint(c)["state_dict"] for c in (naive, single))
    for name, tensor in two.items():
        torch.testing.assert_close(one[name], tensor, rtol=1e-6, atol=1e-7)


def test_a_client_rejected_in_both_exchanges_is_counted_in_both(tmp_path):
    poison = [{"type": "PoisonHook", "clients": ["b"]}]
    config, _ = run(tmp_path, {"type": "NaiveFedGloSS", **GLOSS}, custom_hooks=poison)
    rejected = toyseg.history(config)[0]["rejected"]
    assert [(r["client"], r["exchange"]) for r in rejected] == [("b", 0), ("b", 1)]
    assert set(toyseg.client_states(config)["clients"]) == {"a", "f"}
