"""DP-FedAvg against NumPy over rounds of any number of clients, and Opacus' accountant."""

import json

import numpy as np
import pytest
import torch
import toyquad
import toyseg
from algorithm_table import ENTRIES
from opacus.accountants import RDPAccountant
from toyquad import local_steps, trace

from fedseg.config.compose import read_method
from fedseg.config.layers import CONFIGS
from fedseg.config.needs import NEEDS
from fedseg.core.hook import FederatedHook
from fedseg.core.seeds import generator_for
from fedseg.errors import ConfigError
from fedseg.registry import HOOKS
from fedseg.runner.checkpoint import FederatedCheckpointHook, checkpoint_path
from fedseg.runner.sampler import PoissonSampler
from fedseg.updates.privacy import COUNTED, DPFedAvg, is_checkpoint, weights_path

CLIENTS, ROUNDS = "abcd", 6
POISSON = {"_delete_": True, "type": "PoissonSampler", "clients_per_round": 1.4}
ALL = {**POISSON, "clients_per_round": "all"}


def changes(sampler=POISSON, rounds=ROUNDS, **privacy):
    return {
        "client_sampler": sampler,
        "train_cfg": {"max_rounds": rounds, "max_norm_ratio": None},
        "privacy": {"type": "DPFedAvg", **privacy},
    }


def test_rounds(tmp_path):
    """Clip, sum, noise, and q K for the denominator, whoever takes part, and if nobody does."""
    options = changes(noise=0.5, clip=0.3, delta=0.01)
    config = toyquad.run(tmp_path, {"type": "FedAvg"}, **options)
    w, took = np.array(toyquad.START), []
    for number, after in enumerate(trace(config)[1:], start=1):
        draws = generator_for(0, "participants", number).random(len(CLIENTS))
        total = generator_for(0, "privacy", number).standard_normal(3) * 0.5 * 0.3
        for k in np.array([*CLIENTS])[draws < 1.4 / 4]:
            delta = w - local_steps(k, w, 5, 0.1)
            total += delta * min(1, 0.3 / np.linalg.norm(delta))
        w = w - total / 1.4
        took.append(int((draws < 1.4 / 4).sum()))
        np.testing.assert_allclose(after, w, rtol=1e-12)
    assert 0 in took and max(took) > 1
    lines = toyseg.history(config)
    assert [line["epsilon"] for line in lines] == sorted(line["epsilon"] for line in lines)
    assert [len(line["participants"]) for line in lines] == took
    accountant = RDPAccountant()
    for number in (1, ROUNDS):
        accountant.history = [(0.5, 1.4 / 4, number)]
        epsilon = accountant.get_epsilon(0.01)
        assert lines[number - 1]["epsilon"] == pytest.approx(epsilon, rel=1e-12)
    private = json.loads((tmp_path / "run" / "results.json").read_text())["privacy"]
    assert private == {"epsilon": lines[-1]["epsilon"], "delta": 0.01, "rate": 1.4 / 4}


def test_without_noise_and_clip_it_is_fedavg(tmp_path):
    """With everybody in every round, and clients that weigh alike."""
    plain = toyquad.run(
        tmp_path / "a", {"type": "FedAvg"}, robust={"type": "TrimmedMean", "share": 0}
    )
    private = toyquad.run(tmp_path / "b", {"type": "FedAvg"}, **changes(ALL, 3, noise=0, clip=None))
    np.testing.assert_allclose(trace(plain), trace(private), rtol=1e-12)
    assert [line["epsilon"] for line in toyseg.history(private)] == [None] * 3


@HOOKS.register_module()
class SendNorm(FederatedHook):
    """Lets every client send the norm of its update besides."""

    def after_client(self, runner, client, update):
        update.numbers = {"norm": float(update.vectors["delta"].norm())}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"client_sampler": {"type": "UniformSampler"}}, "PoissonSampler"),
        ({"train_cfg": {"max_norm_ratio": 10.0}}, "max_norm_ratio"),
        ({"robust": {"type": "CoordinateMedian"}}, "robust"),
        ({"custom_hooks": [{"type": "SendNorm"}]}, "norm would be sent without noise"),
        ({"privacy": {"clip": None}}, "clip"),
        ({"privacy": {"priority": "HIGH"}}, r"privacy\.priority: unknown argument"),
        ({"privacy": None}, "PoissonSampler has rounds without a client"),
    ],
)
def test_what_else_would_tell_of_a_client(tmp_path, more, message):
    options = toyseg.merge(changes(ALL, 3), more)
    with pytest.raises(ConfigError, match=message):
        toyquad.run(tmp_path, {"type": "FedAvg"}, **options)


@pytest.mark.parametrize("name", ENTRIES)
def test_epsilon_is_that_of_fedavg_and_fedprox(tmp_path, name):
    entry = ENTRIES[name]
    optimizer = next(kind for kind in ("SAM", "SGD") if kind not in entry.refused)
    config = toyseg.settings(
        tmp_path,
        **changes(ALL, 1),
        algorithm={"_delete_": True, "type": name, **entry.options},
        optim_wrapper={"_delete_": True, **entry.local(optimizer)},
        averaging=None,
        **entry.more,
    )
    runner = toyseg.runner(config)
    runner.build_federation()
    (privacy,) = runner.trainer.postprocessors
    if name in ("FedAvg", "FedProx"):
        assert list(privacy.refusals(runner)) == []
        checkpoints = next(h for h in runner.hooks if isinstance(h, FederatedCheckpointHook))
        checkpoints.save_best = "seen/accuracy"
        (refusal,) = privacy.refusals(runner)
        assert refusal.startswith("default_hooks.checkpoint.save_best: ")
        return
    with pytest.raises(ConfigError, match=rf"epsilon is that of FedAvg and FedProx.* {name}:"):
        privacy.check(runner)


def test_the_method_refuses_the_same_algorithms():
    method = read_method(CONFIGS / "methods" / "dp_fedavg.py")
    assert NEEDS["fedavg_updates"] in method.needs
    assert NEEDS["fedavg_updates"].accepted == COUNTED


def test_a_private_run_goes_on_with_what_is_counted(tmp_path):
    """All its rounds count; another noise, or rounds without any, are another run."""
    private = changes(rounds=2, noise=0.5, clip=0.3, delta=0.01)
    config = toyquad.run(tmp_path, {"type": "FedAvg"}, **private)
    for other in ({"privacy": {"noise": 2.0}}, {"client_sampler": {"clients_per_round": 1.0}}):
        with pytest.raises(ConfigError, match=r"--resume: .* was made with another"):
            toyseg.train(toyseg.merge(config, other), resume=True)
    more = toyseg.merge(config, {"train_cfg": {"max_rounds": 4}})
    toyseg.train(more, resume=True)
    accountant = RDPAccountant()
    accountant.history = [(0.5, 1.4 / 4, 4)]
    assert toyseg.history(more)[-1]["epsilon"] == pytest.approx(accountant.get_epsilon(0.01))
    plain = toyquad.run(tmp_path / "plain", {"type": "FedAvg"})
    added = toyseg.merge(plain, changes(rounds=4))
    with pytest.raises(ConfigError, match=r"--resume: .* was made with another"):
        toyseg.train(added, resume=True)


def test_weights_of_a_run_are_no_start(tmp_path):
    """Its clients are not counted, whether they were private or not."""
    plain = toyquad.run(tmp_path / "plain", {"type": "FedAvg"})
    checkpoint = str(checkpoint_path(tmp_path / "plain" / "run" / "checkpoints", 3))
    with pytest.raises(ConfigError, match="privacy: load_from: what an earlier run revealed"):
        toyquad.run(tmp_path / "a", {"type": "FedAvg"}, load_from=checkpoint, **changes())
    assert is_checkpoint(weights_path(checkpoint))
    state_dict = tmp_path / "public.pth"
    torch.save(toyseg.checkpoint(plain)["state_dict"], state_dict)
    assert not is_checkpoint(weights_path({"path": str(state_dict)}))


@pytest.mark.parametrize(
    ("personal", "count"), [(None, 2), (toyseg.SILOBN, 2), (toyseg.SILOBN, 0.3)]
)
def test_batchnorm_statistics(tmp_path, personal, count):
    """Refused where they are averaged; a compressed update is clipped as it arrives."""
    options = changes({**POISSON, "clients_per_round": count}, 2, noise=1.0, clip=0.01)
    options |= {"personal": personal, "compression": {"type": "SignSGD"}}
    config = toyseg.settings(tmp_path / "run", **options)
    if personal is None:
        with pytest.raises(ConfigError, match="BatchNorm statistics are averaged without noise"):
            toyseg.train(config)
    else:
        toyseg.train(config)
        sizes = [len(line["participants"]) for line in toyseg.history(config)]
        assert len(sizes) == 2 and (count == 2 or 0 in sizes)


def test_clipped():
    sampler = PoissonSampler(5)
    sampler.bind([str(n) for n in range(100)], 0)
    assert DPFedAvg().accountant_of(sampler).delta == 100**-1.1
    numbers = [len(sampler.participants(number)) for number in range(1, 2001)]
    assert np.mean(numbers) == pytest.approx(5, abs=0.2)
    assert np.var(numbers) == pytest.approx(4.75, abs=0.5)
