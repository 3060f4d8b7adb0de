"""Algorithms with vectors of their own are the same bits whether the run was killed or stopped.

Control variates, duals and the server's momentum; on disk, and between the exchanges of a round.
"""

import contextlib
import signal

import pytest
import torch
import toyseg

SGD = {"optim_wrapper": toyseg.PLAIN["optim_wrapper"]}
DISK = {"state_store": {"keep": "disk"}}
SCAFFOLD = {"algorithm": {"type": "SCAFFOLD"}, **SGD, **DISK}
FEDSMOO = {"algorithm": {"type": "FedSMOO", "rho": 0.1, "beta": 10.0}, **SGD, **DISK}
MIME = {
    "algorithm": {"type": "MIME", "momentum": 0.6},
    "optim_wrapper": {"optimizer": {"momentum": 0.0}},
}
VARIANTS = {"SCAFFOLD": SCAFFOLD, "FedSMOO": FEDSMOO, "MIME": MIME}
# MIME's clients have local steps in the second exchange only; the first sum is that of the first
MOMENTS = [
    ("SCAFFOLD", "client"),
    ("FedSMOO", "client"),
    ("FedSMOO", "aggregate"),
    ("MIME", "client"),
    ("MIME", "aggregate"),
]
VECTORS = {"SCAFFOLD": {"control"}, "FedSMOO": {"mu", "sigma"}, "MIME": set()}


@pytest.fixture(scope="module")
def wholes(tmp_path_factory):
    """The undisturbed runs by name."""
    torch.set_num_threads(1)
    configs = {}
    for name, changes in VARIANTS.items():
        configs[name] = toyseg.settings(tmp_path_factory.mktemp(name), **changes)
        toyseg.train(configs[name])
    return configs


@pytest.mark.parametrize("name", VARIANTS)
def test_the_runs_are_worth_comparing(wholes, name):
    """Clients come back with what they have kept, and the server's vectors move."""
    states = toyseg.client_states(wholes[name])["clients"]
    lines = toyseg.history(wholes[name])
    chosen = [p["client"] for line in lines for p in line["participants"]]
    assert any(chosen.count(client) > 2 for client in states)
    for state in states.values():
        assert VECTORS[name] <= state.keys()
        assert all(state[vector].any() for vector in VECTORS[name])
    now, before = (toyseg.checkpoint(wholes[name], i)["server"]["state"] for i in (6, 5))
    assert now.keys() == before.keys() and now
    assert len(toyseg.differences(now, before)) == len(now)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Runs of the command line killed in round 4, by moment: config, and what is in its folder."""
    started = {}
    for name, at in MOMENTS:
        folder = tmp_path_factory.mktemp(f"{name}_{at}")
        hook = {"type": "KillHook", "at": at, "round_": 4, "marker": str(folder / "killed")}
        more = {"custom_hooks": [hook], "train_cfg": {"hook_interval": 1}}
        config = toyseg.settings(folder, **VARIANTS[name], **more)
        path = toyseg.write_config(folder / "toy.py", config)
        started[name, at] = config, folder, toyseg.start_cli(path)
    for _, folder, process in started.values():
        _, err = process.communicate()
        assert process.returncode == -signal.SIGKILL, err
        assert (folder / "killed").exists()
    return {moment: config for moment, (config, _, _) in started.items()}


@pytest.mark.parametrize(("name", "at"), MOMENTS)
def test_sigkill_and_resume(killed, wholes, name, at):
    config = killed[name, at]
    assert [line["round"] for line in toyseg.history(config)] == [1, 2, 3]
    toyseg.train(config, resume=True)
    assert toyseg.run_differences(wholes[name], config) == []


def stopped(monkeypatch, config, round_, exchange, check, resume):
    """Train until Ctrl-C at the n-th check of an exchange; the server as it is then."""
    from fedseg.runner.interrupt import Interrupted, InterruptGuard

    made = toyseg.runner(config, resume)
    seen = [0]

    def stop(guard):
        server = made.server
        seen[0] += (server.round, server.exchange) == (round_, exchange)
        if seen[0] == check:
            raise Interrupted("stopped")

    with monkeypatch.context() as patch, contextlib.suppress(Interrupted):
        patch.setattr(InterruptGuard, "check", stop)
        made.train()
        raise AssertionError(f"round {round_} has no check {check} in exchange {exchange}")
    return made.server


@pytest.mark.parametrize("keep", ["memory", "disk"])
def test_ctrl_c_in_every_exchange(tmp_path, wholes, monkeypatch, keep):
    """In full-batch gradients, in the local steps after them, at the first and at a later client.

    What an interrupted round has gathered goes; the server is where the round before left it.
    """
    config = toyseg.settings(tmp_path, **{**MIME, "state_store": {"keep": keep}})
    moments = [(2, 0, 1), (2, 1, 1), (3, 1, 8), (5, 0, 4)]
    for number, (round_, exchange, check) in enumerate(moments):
        server = stopped(monkeypatch, config, round_, exchange, check, resume=number > 0)
        assert (server.round, server.exchange) == (round_, exchange)
        assert bool(server.scratch) == (exchange == 1)
        assert toyseg.history(config)[-1]["round"] == round_ - 1
        kept = toyseg.checkpoint(config, round_ - 1)["server"]["state"]
        assert toyseg.differences(kept, dict(server.state)) == []
    toyseg.train(config, resume=True)
    assert toyseg.run_differences(wholes["MIME"], config) == []
