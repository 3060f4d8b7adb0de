"""The FedExP of docs/own_algorithm.md against its equation, after every round of eight."""

import importlib
import sys

import numpy as np
import pytest
import transcriptions
from doc_pages import ROOT, blocks
from harness import LOCAL, PLAIN, SAM, TOLERANCE, federation, relative_error, run_engine

from fedseg.registry import ALGORITHMS


class FedExP(transcriptions.FedAvg):
    """FedExP (Jhunjhunwala 2023, algorithm 1): eta_g, then w <- w - eta_g mean_S Delta_k."""

    def set_up(self):
        self.eta_g = None

    def round(self):
        deltas = {k: self.w - w_k for k, w_k in self.train_all(self.w).items()}
        mean = transcriptions.mean(deltas)
        norms = sum(np.sum(delta**2) for delta in deltas.values())
        ratio = norms / (2 * len(deltas) * (np.sum(mean**2) + self.eps))
        self.eta_g = max(1.0, ratio)
        self.w = self.w - self.eta_g * mean


@pytest.fixture
def page(tmp_path, monkeypatch):
    """Imports the file of the page, and forgets it."""
    (block,) = (b for b in blocks(ROOT / "docs" / "own_algorithm.md") if b.name == "fedexp.py")
    (tmp_path / "fedexp.py").write_text(block.text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("fedexp")
    yield
    del sys.modules["fedexp"]
    ALGORITHMS.module_dict.pop("FedExP")


@pytest.mark.parametrize(
    ("local", "eps", "step"),
    [(LOCAL, 1e-3, "longer"), (PLAIN, 0.0, "longer"), (SAM, 10.0, "1")],
    ids=["momentum", "plain SGD", "SAM and a large eps"],
)
def test_the_documented_fedexp_is_the_papers(page, tmp_path, local, eps, step):
    trace = run_engine(tmp_path / "run", {"type": "FedExP", "eps": eps}, local=local)
    expected = FedExP(federation(), local, eps=eps).run()
    assert relative_error(trace.weights, [kept["w"] for kept in expected]) <= TOLERANCE
    step_sizes = [kept["eta_g"] for kept in expected]
    assert [line["step_size"] for line in trace.history] == pytest.approx(step_sizes, rel=1e-9)
    assert (max(step_sizes) > 1) == (step == "longer")
