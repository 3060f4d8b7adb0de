"""A run on CUDA takes deterministic kernels; what has none is said so that it can be mended."""

import os

import pytest
import torch
import toycls
import toyseg

from fedseg.errors import ConfigError
from fedseg.registry import MODELS
from fedseg.runner import kernels
from fedseg.runner.build import build_trainer
from fedseg.runs.results import environment


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return toycls.write_data(tmp_path_factory.mktemp("data") / "toy")


@pytest.fixture
def switches(monkeypatch):
    """The switches of PyTorch that were set, by name."""
    values = {}
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    monkeypatch.setattr(
        torch, "use_deterministic_algorithms", lambda mode: values.update(algorithms=mode)
    )
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", False)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    yield values
    os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)


def test_kernels_of_cuda(switches):
    kernels.choose_kernels("cpu", deterministic=True)
    assert switches == {} and "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    kernels.choose_kernels("cuda:1", deterministic=True)
    assert switches == {"algorithms": True} and torch.backends.cudnn.deterministic
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert not torch.backends.cudnn.benchmark
    kernels.choose_kernels("cuda", deterministic=False)
    assert switches == {"algorithms": False} and not torch.backends.cudnn.deterministic


@pytest.mark.parametrize(("given", "chosen"), [({}, True), ({"deterministic": False}, False)])
def test_runs_and_workers_are_deterministic_unless_the_config_says_no(
    tmp_path, root, monkeypatch, given, chosen
):
    calls = []
    for module in ("build", "runner"):
        name = f"fedseg.runner.{module}.choose_kernels"
        monkeypatch.setattr(name, lambda *arguments: calls.append(arguments))
    config = toycls.settings(tmp_path, root, randomness={"seed": 0, **given})
    build_trainer(config)
    toyseg.runner(config)
    assert calls == [("cpu", chosen)] * 2


@MODELS.register_module()
class WithoutKernel(toycls.ToyClassifier):
    """Uses an operation that PyTorch refuses where kernels must be deterministic."""

    def features(self, inputs):
        torch.zeros(1).put_(torch.tensor([0]), torch.ones(1))
        return super().features(inputs)


def test_an_operation_without_a_deterministic_kernel_is_named(tmp_path, root):
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(ConfigError, match="put_ has no deterministic kernel"):
            toycls.run(tmp_path, root, model={"type": "WithoutKernel"})
    finally:
        torch.use_deterministic_algorithms(False)


def test_the_environment_of_a_run_on_cuda_says_what_rounds_it(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    facts = environment(torch.device("cuda:0"))
    assert facts["hardware"] == "a GPU"
    assert {facts[key] for key in ("tf32_matmul", "deterministic")} == {False}
    assert isinstance(facts["tf32_convolution"], bool)
    assert "tf32_matmul" not in environment(torch.device("cpu"))
