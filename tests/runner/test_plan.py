"""The plan of a run: what a real round sends, whatever the algorithm; nothing changed by it."""

import pytest
import torch
import toycls
import toyseg
from algorithm_table import ENTRIES

from fedseg.core.client_data import ClientData
from fedseg.errors import ConfigError
from fedseg.loaders.streaming import StreamingData
from fedseg.runner.plan import make_plan

PLAIN = toyseg.PLAIN["optim_wrapper"]
SAM = {"type": "SAMOptimWrapper", "rho": 0.1, "optimizer": {"type": "SGD", "lr": 0.1}}


def settings(folder, name, wrapper=None, personal=toyseg.SILOBN):
    """One round on the toy. wrapper: the local optimizer, if it is not SGD."""
    if name == "FedGamma":  # SCAFFOLD's rule with SAM
        wrapper = SAM
    return toyseg.settings(
        folder,
        algorithm={"_delete_": True, "type": name, **ENTRIES[name].options},
        optim_wrapper={"_delete_": True, **wrapper} if wrapper else PLAIN,
        train_cfg={"max_rounds": 1},
        val_dataloader=None,
        val_evaluator=None,
        **{"personal": personal, **ENTRIES[name].more},
    )


def same_as_a_real_round(config):
    plan = make_plan(toyseg.runner({**config, "work_dir": config["work_dir"] + "-plan"}))
    toyseg.train(config)
    (line,) = toyseg.history(config)
    for name in ("down", "up"):
        expected = plan[f"traffic {name} per round"]
        assert set(expected.values()) == {line[f"bytes_{name}"]}
    return plan


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
    plan = same_as_a_real_round(config)
    states = toyseg.client_states(config)["clients"].values()
    sizes = [sum(t.numel() * t.element_size() for t in s.values()) for s in states]
    kept = plan["client state when all have trained"] / len(toyseg.USERS)
    assert kept == (sizes[0] if sizes else 0)


def test_the_plan_leaves_the_server_as_it_was(tmp_path):
    runner = toyseg.runner(settings(tmp_path, "MIME"))
    make_plan(runner)
    fresh = toyseg.runner(settings(tmp_path, "MIME"))
    fresh.build_federation()
    assert torch.equal(runner.server.w, fresh.server.w)
    assert torch.equal(runner.server.state["m"], fresh.server.state["m"])
    assert not runner.server.scratch


@pytest.mark.parametrize(
    ("name", "wrapper", "passes"),
    [("FedAvg", None, 1), ("FedAvg", SAM, 2), ("FedSMOO", None, 2), ("MIME", SAM, 4)],
)
def test_passes_a_step(tmp_path, name, wrapper, passes):
    plan = make_plan(toyseg.runner(settings(tmp_path, name, wrapper)))
    assert plan["forward-backward passes per step"] == passes


def test_full_gradients_are_timed_by_themselves(tmp_path):
    mime = make_plan(toyseg.runner(settings(tmp_path, "MIME")))
    plain = make_plan(toyseg.runner(settings(tmp_path, "FedAvg")))
    assert mime["seconds per full-gradient batch"] > 0 and mime["seconds per local step"] > 0
    assert "seconds per full-gradient batch" not in plain
    assert mime["local steps per round"] == plain["local steps per round"]


def test_data_without_full_passes_refuse_full_gradients(tmp_path, monkeypatch):
    monkeypatch.setattr(StreamingData, "full_sizes", ClientData.full_sizes)  # not written
    same_as_a_real_round(settings(tmp_path / "other", "SCAFFOLD"))
    config = settings(tmp_path, "MIME")
    for run in (make_plan, type(toyseg.runner(config)).train):
        with pytest.raises(ConfigError, match=r"train_dataloader\.type: StreamingData has no full"):
            run(toyseg.runner(config))


def test_images_in_memory(tmp_path):
    root = toycls.write_data(tmp_path / "data")
    changes = {"algorithm": {"_delete_": True, "type": "MIME"}, "train_cfg": {"max_rounds": 1}}
    changes["optim_wrapper"] = {"optimizer": {"momentum": 0.0}}
    same_as_a_real_round(toycls.settings(tmp_path, root, **changes))
