"""The benchmark of algorithms: what it counts is what the algorithms are defined to need."""

import pytest
import torch
from benchmarks import algorithms as benchmark

# passes per step, traffic, vectors that a client keeps, and vectors that it holds while it trains:
# model, gradient, what it received and their difference are 4, then extras, state, work vectors
EXPECTED = {
    "FedAvg": (1, 1, 0, 4),
    "FedProx": (1, 1, 0, 4),
    "SCAFFOLD": (1, 2, 1, 7),
    "FedDyn": (1, 1, 1, 5),
    "AdaBest": (1, 1, 1, 5),
    "FedCM": (1, 1.5, 0, 5),
    "FedACG": (1, 1, 0, 4),
    "FedGloSS-SGD": (1, 1, 1, 5),
    "FedSAM": (2, 1, 0, 5),
    "FedASAM": (2, 1, 0, 8),
    "FedGloSS-SAM": (2, 1, 1, 6),
    "FedGamma": (2, 2, 1, 8),
    "FedSpeed": (2, 1, 1, 7),
    "FedSMOO": (2, 2, 2, 9),
    "MIMELite": (2, 2, 0, 6),
    "MIME": (3, 2, 0, 7),
}


def prepared(folder, names=benchmark.CNN, clients=2, samples=6):
    """On random images, whatever is in data/."""
    options = [f"data_root={folder / 'nowhere'}"]
    return benchmark.prepare(folder, list(names), False, clients, samples, False, options)


@pytest.fixture(scope="module")
def steady(tmp_path_factory):
    """All methods on the CNN after two rounds, and the operations of the second."""
    torch.set_num_threads(1)
    rounds = prepared(tmp_path_factory.mktemp("cnn"))
    for run in rounds.values():
        run()
    return rounds, {name: run.flops() for name, run in rounds.items()}


def test_every_method_is_expected(steady):
    rounds, _ = steady
    assert set(rounds) == {*EXPECTED, "MOON"}


def test_counts_are_those_of_the_definition(steady):
    rounds, flops = steady
    reference = rounds["FedAvg"]
    for name, (passes, traffic, kept, held) in EXPECTED.items():
        run = rounds[name]
        assert flops[name] == passes * flops["FedAvg"], name
        assert run.traffic == [traffic * sent for sent in reference.traffic], name
        assert run.kept() == pytest.approx(kept, abs=1e-5), name
        assert run.held == held, name
        runner = run.runner  # the engine's own count, and one full-batch gradient a local epoch
        exchanges = runner.algorithm.exchanges
        own = runner.optim_wrapper.passes * exchanges[-1].gradients
        assert passes == own + sum(exchange.full_gradient for exchange in exchanges), name


def test_moon_has_two_forward_passes_more(steady):
    """And a projection head. A forward pass is at least a third: images need no gradient."""
    rounds, flops = steady
    assert 1 + 2 / 3 < flops["MOON"] / flops["FedAvg"] < 2
    run, reference = rounds["MOON"], rounds["FedAvg"]
    larger = run.runner.flat.num_parameters / reference.runner.flat.num_parameters
    assert larger > 1
    assert run.traffic[1] / reference.traffic[1] == pytest.approx(larger)
    assert (run.kept(), run.held) == (1, 5)


def test_participants_are_the_same_and_have_been_there(steady):
    rounds, _ = steady
    chosen = {tuple(run.runner.client_sampler.participants(9)) for run in rounds.values()}
    assert len(chosen) == 1 and len(*chosen) == 2
    assert len(rounds["SCAFFOLD"].runner.store.keys()) == 2
    assert len({id(run.runner.trainer.data) for run in rounds.values()}) == 1
    assert all(run.runner.optim_wrapper.clip_grad_kwargs is None for run in rounds.values())


def test_what_is_measured_is_consistent(tmp_path):
    rounds = prepared(tmp_path, ["FedAvg", "SCAFFOLD", "MIME"])
    measured = benchmark.compare(rounds, repeats=1)
    assert measured["clients per round"] == measured["steps per round"] == 2
    for name, method in measured["methods"].items():
        passes, traffic, kept, held = EXPECTED[name]
        assert method["passes per step"] == passes and method["traffic / FedAvg"] == traffic
        assert (method["vectors kept"], method["vectors in training"]) == (kept, held)
        assert method["round / (passes x FedAvg)"] == method["round / FedAvg"] / passes
