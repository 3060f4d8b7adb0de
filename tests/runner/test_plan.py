"""The plan of a run: what a real round sends, whatever the algorithm; nothing changed by it."""

import pytest
import torch
import toycls
import toyseg
from algorithm_table import ENTRIES

from fedseg.core.client_data import ClientData
from fedseg.core.messages import num_bytes
from fedseg.errors import ConfigError
from fedseg.loaders.streaming import StreamingData
from fedseg.runner.plan import make_plan, rehearse

PLAIN = toyseg.PLAIN["optim_wrapper"]
SAM = {"type": "SAMOptimWrapper", "rho": 0.1, "optimizer": {"type": "SGD", "lr": 0.1}}


def settings(folder, name, personal=toyseg.SILOBN):
    """One round on the toy."""
    wrapper = SAM if name == "FedGamma" else PLAIN  # SCAFFOLD's rule with SAM
    return toyseg.settings(
        folder,
        algorithm={"_delete_": True, "type": name, **ENTRIES[name].options},
        optim_wrapper={"_delete_": True, **wrapper},
        train_cfg={"max_rounds": 1},
        val_dataloader=None,
        val_evaluator=None,
        **{"personal": personal, **ENTRIES[name].more},
    )


def rehearsed(config):
    """The plan of a run, and what one of its clients takes."""
    runner = toyseg.runner({**config, "work_dir": config["work_dir"] + "-plan"})
    plan = make_plan(runner)
    return plan, rehearse(runner.trainer, runner.server, 0)


def check_traffic(config):
    """Compare a plan with a real round; returns what a client takes."""
    plan, client = rehearsed(config)
    toyseg.train(config)
    (line,) = toyseg.history(config)
    assert (plan.bytes_down, plan.bytes_up) == (line["bytes_down"], line["bytes_up"])
    return client


@pytest.mark.parametrize(
    ("name", "personal"),
    [
        *((name, toyseg.SILOBN) for name in ENTRIES),
        *((name, None) for name in ("FedAvg", "FedSMOO", "MIME")),
        *((name, toyseg.FEDBN) for name in ("FedAvg", "FedProx", "FedACG")),
    ],
)
def test_traffic_is_that_of_a_real_round(tmp_path, name, personal):
    config = settings(tmp_path, name, personal=personal)
    client = check_traffic(config)
    states = toyseg.client_states(config)["clients"].values()
    sizes = [num_bytes(state.values()) for state in states]
    assert client.state == (sizes[0] if sizes else 0)


def test_the_plan_leaves_the_server_as_it_was(tmp_path):
    runner = toyseg.runner(settings(tmp_path, "MIME"))
    make_plan(runner)
    fresh = toyseg.runner(settings(tmp_path, "MIME"))
    fresh.build_federation()
    assert torch.equal(runner.server.w, fresh.server.w)
    assert torch.equal(runner.server.state["m"], fresh.server.state["m"])
    assert not runner.server.scratch


def test_the_time_of_a_run_is_that_of_its_steps_and_test_images(tmp_path):
    config = toyseg.settings(tmp_path, train_cfg={"max_rounds": 4, "val_interval": 2})
    plan, _ = rehearsed(config)
    assert plan.seconds_per_step > 0 and plan.seconds_per_test_batch > 0
    assert plan.evaluations == 2 and plan.rounds == 4
    assert plan.seconds > 4 * plan.clients_per_round * plan.seconds_per_step
    assert plan.seconds > 2 * plan.seconds_per_test_batch


def test_data_without_full_passes_refuse_full_gradients(tmp_path, monkeypatch):
    monkeypatch.setattr(StreamingData, "full_sizes", ClientData.full_sizes)  # not written
    check_traffic(settings(tmp_path / "other", "SCAFFOLD"))
    config = settings(tmp_path, "MIME")
    for run in (make_plan, type(toyseg.runner(config)).train):
        with pytest.raises(ConfigError, match=r"train_dataloader\.type: StreamingData has no full"):
            run(toyseg.runner(config))


def test_images_in_memory(tmp_path):
    root = toycls.write_data(tmp_path / "data")
    changes = {"algorithm": {"_delete_": True, "type": "MIME"}, "train_cfg": {"max_rounds": 1}}
    changes["optim_wrapper"] = {"optimizer": {"momentum": 0.0}}
    check_traffic(toycls.settings(tmp_path, root, **changes))
