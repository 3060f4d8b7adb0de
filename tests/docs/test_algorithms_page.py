"""The page of algorithms agrees with the code: sections, arguments, traffic and state."""

import ast
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from doc_pages import ROOT

from fedseg.config.compose import setting_file
from fedseg.datasets.arrays import write_images
from fedseg.registry import (
    AGGREGATES,
    ALGORITHMS,
    ATTACKS,
    BATCH_TRANSFORMS,
    COMPRESSIONS,
    HOOKS,
    LOCAL_LOSSES,
    OPTIM_WRAPPERS,
    PRIVACIES,
    SERVER_OPTIMIZERS,
    TRANSFORMS,
)
from fedseg.runner.experiment import load_config
from fedseg.runner.plan import rehearse
from fedseg.runner.runner import FederatedRunner

PAGE = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8")
METHODS = (ALGORITHMS, LOCAL_LOSSES)
UPDATES = (ATTACKS, COMPRESSIONS, PRIVACIES, AGGREGATES, SERVER_OPTIMIZERS)
OTHERS = (BATCH_TRANSFORMS, HOOKS, OPTIM_WRAPPERS, TRANSFORMS)
CALLS = sorted(set(re.findall(r"`([A-Z]\w*\([^`]*\))`", PAGE)))
# the rows below the head of the table
COSTS = PAGE.split("## Costs\n")[1].split("|---|\n")[1].split("\n\n")[0].splitlines()


def registered(name: str) -> type:
    """The class of a name on the page."""
    for registry in (*METHODS, *UPDATES, *OTHERS):
        if name in registry.modules:
            return registry.get(name)
    raise KeyError(name)


def test_every_method_has_a_section_and_its_arguments():
    sections = set(re.findall(r"^### (\w+)$", PAGE, re.MULTILINE))
    names = {call.partition("(")[0] for call in CALLS}
    for registry in METHODS:
        assert set(registry.modules) <= sections
        assert set(registry.modules) - names <= {"NaiveFedGloSS"}  # FedGloSS's
    for registry in UPDATES:
        assert set(registry.modules) <= names


@pytest.mark.parametrize("text", CALLS)
def test_arguments_and_defaults_are_those_of_the_class(text):
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    required, defaults = [], {}
    for parameter in inspect.signature(registered(call.func.id)).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        else:
            defaults[parameter.name] = parameter.default
    assert [ast.unparse(argument) for argument in call.args] == required
    written = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    assert written == defaults
    assert list(written) == list(defaults)


# ---------------------------------------------------------------- costs


@dataclass(frozen=True)
class Row:
    """A row of the table of costs.

    Attributes:
        methods: of ``--with``.
        options: of ``--cfg-options``.
        gradients: per local step, in words.
        down, up, client, server: number of vectors.
    """

    methods: list[str]
    options: Mapping[str, str]
    gradients: str
    down: int
    up: int
    client: int
    server: int


def read_row(line: str) -> Row:
    """Read a line of the table."""
    _, methods, gradients, *vectors = (cell.strip() for cell in line.strip("|").split("|"))
    codes = re.findall(r"`([^`]+)`", methods)
    down, up, client, server = vectors
    return Row(
        methods=codes[0].split(),
        options=dict(code.split("=") for code in codes[1:]),
        gradients=gradients,
        down=num_vectors(down),
        up=num_vectors(up),
        client=num_vectors(client),
        server=num_vectors(server),
    )


def num_vectors(cell: str) -> int:
    """The number of symbols in a cell."""
    return 0 if cell == "-" else len(cell.split(", "))


@pytest.fixture(scope="module")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few random images in the place of CIFAR-10."""
    rng = np.random.default_rng(0)
    train = rng.integers(0, 256, (8, 32, 32, 3), dtype=np.uint8)
    test = rng.integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    folder = tmp_path_factory.mktemp("cifar")
    write_images(folder, "CIFAR10", list("abcdefghij"), (train, np.arange(8)), (test, np.arange(2)))
    return folder


def small_runner(row: Row, data_root: Path, work_dir: Path) -> FederatedRunner:
    """The federation of a row: two clients with four images each."""
    config = load_config(setting_file("cifar10_a005"), row.methods, work_dir=work_dir)
    config.merge_from_dict(dict(row.options))
    config.device = "cpu"
    config.train_dataloader.batch_size = 2
    config.train_dataloader.partition = dict(type="HomogeneousPartition", num_clients=2)
    config.train_dataloader.dataset.data_root = str(data_root)
    config.client_sampler = dict(type="UniformSampler", clients_per_round=1)
    config.val_dataloader = config.val_evaluator = config.val_cfg = None
    config.test_dataloader = config.test_evaluator = config.test_cfg = None
    config.default_hooks = dict(checkpoint=None, progress=None, pictures=None)
    runner = FederatedRunner.from_cfg(config)
    runner.build_federation()
    return runner


def gradients_of(runner: FederatedRunner) -> str:
    """What a local step computes, as the table writes it."""
    exchanges = runner.algorithm.exchanges
    trained = sum(exchange.train for exchange in exchanges)
    text = str(trained * runner.optim_wrapper.passes * exchanges[-1].gradients)
    if any(exchange.full_gradient for exchange in exchanges):
        text += ", and one over all images"
    if runner.cfg.get("local_loss") is not None:
        text += ", and the loss"
    return text


def server_vectors(runner: FederatedRunner) -> int:
    """Vectors like the model's that the server keeps, its optimizer's included."""
    server = runner.server
    optimizer: Any = getattr(runner.algorithm, "server_optim", None)
    if optimizer is not None:  # allocates its vectors at the first step
        optimizer.step(server, torch.zeros_like(server.w, dtype=torch.float64))
    return sum(vector.shape == server.w.shape for vector in server.state.values())


@pytest.mark.parametrize("line", COSTS, ids=lambda line: line.split("|")[1].strip())
def test_costs_are_those_of_a_rehearsed_round(line, cifar, tmp_path):
    row = read_row(line)
    runner = small_runner(row, cifar, tmp_path)
    rehearsal = rehearse(runner.trainer, runner.server, 0)
    vector = 4 * runner.flat.num_parameters
    assert gradients_of(runner) == row.gradients
    # further: BatchNorm's statistics, single numbers
    assert rehearsal.down / vector == pytest.approx(row.down, abs=0.05)
    assert rehearsal.up / vector == pytest.approx(row.up, abs=0.05)
    assert rehearsal.state / vector == pytest.approx(row.client, abs=0.05)
    assert server_vectors(runner) == row.server


def test_every_algorithm_has_a_row_of_costs():
    """Except those that send a part of the model."""
    listed = {re.split(r"\W", line.split("|")[1].strip())[0] for line in COSTS}
    parts = {"FedRep", "FedBABU", "FlexLoRA", "FedExLoRA"}
    assert set(ALGORITHMS.modules) - parts <= listed
