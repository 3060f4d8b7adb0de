"""A stranger's run is data: nothing in it is executed, imported, fetched, or read outside it."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
import torch
from faults import Payload

from fedseg.errors import ConfigError, UserError
from fedseg.leaderboard.verify import verify
from fedseg.runner.recorded import recorded
from fedseg.runner.runner import FederatedRunner
from fedseg.runs.config import CONFIG_FILE

HOSTILE = "hostile_module"
HEAD = {"type": "FCNHead", "in_channels": 8, "channels": 8, "num_classes": 16}
MMSEG = {"type": "EncoderDecoder", "backbone": {"type": "BiSeNetV2"}, "decode_head": HEAD}
TIMM = {"type": "TIMMBackbone", "model_name": "resnet18"}
PICKLED = {"type": "Pretrained", "checkpoint": "hostile.pth"}


@pytest.fixture
def mark(tmp_path) -> Path:
    """A file that must not appear."""
    return tmp_path / "executed"


@pytest.fixture
def run(run_copy, tmp_path, mark, monkeypatch) -> Path:
    """A copy of a run, with hostile modules in it and on the path."""
    program = f"from pathlib import Path\nPath({str(mark)!r}).touch()\n"
    program += "class Thing:\n    def __init__(self, *args, **kwargs):\n        pass\n"
    elsewhere = tmp_path / "installed"
    for place in (run_copy, elsewhere / HOSTILE, elsewhere):
        place.mkdir(exist_ok=True, parents=True)
        (place / f"{HOSTILE}.py").write_text(program)
    for name in ("__init__", "registry"):
        (elsewhere / HOSTILE / f"{name}.py").write_text(program)
    monkeypatch.syspath_prepend(elsewhere)
    torch.save({"state_dict": Payload(mark)}, tmp_path / "hostile.pth")
    monkeypatch.chdir(tmp_path)
    return run_copy


def rewrite(run: Path, path: str, value) -> None:
    """Set a field of the run's ``config.json``; a number in the path is a place in a list."""
    file = run / CONFIG_FILE
    config = json.loads(file.read_text())
    place, *parts = config, *path.split(".")
    for part in parts[:-1]:
        place = place[int(part)] if part.isdigit() else place.setdefault(part, {})
    place[parts[-1]] = value
    file.write_text(json.dumps(config))


THING = {"type": f"{HOSTILE}.Thing"}
SEEN = "val_dataloader.seen"
# field of the config -> its value; each would run code, write or load a pickle if it were built
FIELDS = {
    "a function of the system": ("model", {"type": "os.system", "command": "touch executed"}),
    "an import path": ("model", THING),
    "a module without a dot": ("model", {"type": HOSTILE}),
    "a scope with a dot": ("model.type", f"{HOSTILE}.Segmentor"),
    "a scope of its own": ("model._scope_", HOSTILE),
    "a nested scope": (f"{SEEN}.dataset._scope_", HOSTILE),
    "a network": ("model.network", THING),
    "a loss": ("model.loss", THING),
    "a preprocessor": ("model.data_preprocessor", THING),
    "pretrained weights": ("model.init_cfg", PICKLED),
    "weights of the network": (
        "model.network",
        {"type": "MixVisionTransformer", "init_cfg": PICKLED},
    ),
    "pretrained segmentor": ("model.network", {**MMSEG, "pretrained": "hostile.pth"}),
    "a checkpoint of a library": ("model.network", {**TIMM, "checkpoint_path": "hostile.pth"}),
    "a model on a hub": ("model.network", {**TIMM, "model_name": "hf-hub:someone/resnet18"}),
    "a layer by import path": ("model.network", {**TIMM, "norm_layer": f"{HOSTILE}.Thing"}),
    "padding by import path": (
        "model.network",
        {**MMSEG, "backbone": {"type": "BiSeNetV2", "norm_cfg": {"type": HOSTILE}}},
    ),
    "a data set": (f"{SEEN}.dataset", THING),
    "a loader": (f"{SEEN}.type", f"{HOSTILE}.Thing"),
    "a batching function": (f"{SEEN}.collate_fn", {"type": "os.system"}),
    "a transform": (f"{SEEN}.dataset.pipeline", [THING]),
    "a nested transform": (f"{SEEN}.dataset.pipeline", [{"type": "OneOf", "transforms": [THING]}]),
    "a style": (f"{SEEN}.dataset.style", THING),
    "a metric": ("val_evaluator", THING),
    "a metric that writes": ("val_evaluator", {"type": "DumpResults", "out_file_path": "executed"}),
    "a list of metrics": ("val_evaluator", [{"type": "IoUMetric"}, THING]),
    "a loop": ("val_cfg", THING),
    "a test loop": ("test_cfg", THING),
    "an average": ("averaging", THING),
    "an algorithm": ("algorithm", THING),
    "a server optimizer": ("algorithm", {"type": "FedAvg", "server_optim": THING}),
    "a local optimizer": ("optim_wrapper.optimizer", THING),
    "an optimizer's constructor": ("optim_wrapper.constructor", f"{HOSTILE}.Thing"),
    "a client sampler": ("client_sampler", THING),
    "a type that is a list": ("model.type", [f"{HOSTILE}.Thing"]),
    "a domain that is a path": ("val_dataloader", {"../../executed": {}}),
}
# what an evaluation has no use for: the run is verified, and says that its config was changed
IGNORED = {
    "imports": ("custom_imports", {"imports": [HOSTILE], "allow_failed_imports": False}),
    "a default scope": ("default_scope", HOSTILE),
    "weights to start from": ("load_from", "hostile.pth"),
    "a hook": ("custom_hooks", [THING]),
    "a default hook": ("default_hooks", {"checkpoint": THING}),
    "a tracker": ("visualizer", {"type": "FedVisualizer", "vis_backends": [THING]}),
    "a tracker that calls the shell": ("visualizer.vis_backends", [{"type": "DVCLiveVisBackend"}]),
    "an executor": ("executor", THING),
    "a launcher": ("launcher", "slurm"),
    "a log processor": ("log_processor", THING),
    "an environment": ("env_cfg", {"dist_cfg": {"backend": THING}}),
    "a schedule": ("param_scheduler", [THING]),
    "training data": ("train_dataloader.dataset", THING),
    "a partition": ("train_dataloader.partition", THING),
    "a local loss": ("local_loss", THING),
    "a work dir elsewhere": ("work_dir", "executed"),
}


@pytest.mark.parametrize("kind", FIELDS)
def test_what_a_config_must_not_name_is_refused(kind, run, mark):
    rewrite(run, *FIELDS[kind])
    try:
        found = verify(run, trust=["small_network"])
    except UserError as error:
        assert CONFIG_FILE in str(error) or "another model" in str(error)
    else:  # initial weights are left out
        assert found.differences[0].field == "config_json_sha256"
    assert not mark.exists() and HOSTILE not in sys.modules


@pytest.mark.parametrize("kind", IGNORED)
def test_what_an_evaluation_has_no_use_for_is_left_out(kind, run, mark, tmp_path):
    rewrite(run, *IGNORED[kind])
    with recorded(run, tmp_path / "scratch", trust=["small_network"]) as (used, whole):
        FederatedRunner.from_cfg(used)
    value = IGNORED[kind][1]
    assert json.dumps(value) in json.dumps(whole.to_dict())
    assert json.dumps(value) not in json.dumps(used.to_dict())
    assert not mark.exists() and HOSTILE not in sys.modules


def as_link(run: Path, name: str) -> None:
    """Move a part of the run out of it, and leave a link."""
    shutil.move(run / name, run.parent / "outside")
    (run / name).symlink_to(run.parent / "outside")


FILES = {
    "results elsewhere": lambda run: as_link(run, "results.json"),
    "a history elsewhere": lambda run: as_link(run, "history.jsonl"),
    "a config elsewhere": lambda run: as_link(run, CONFIG_FILE),
    "checkpoints elsewhere": lambda run: as_link(run, "checkpoints"),
    "a checkpoint elsewhere": lambda run: as_link(run, "checkpoints/round_000006.pth"),
    "a pickled checkpoint": lambda run: pickled(run),
    "a config as a list": lambda run: (run / CONFIG_FILE).write_text("[1]"),
    "a deep config": lambda run: (run / CONFIG_FILE).write_text('{"a":' * 800 + "1" + "}" * 800),
    "an endless config": lambda run: (run / CONFIG_FILE).write_text("[" * 100_000),
    "a section of another kind": lambda run: rewrite(run, "train_cfg", [1]),
    "test sets of another kind": lambda run: rewrite(run, "val_dataloader", [[1], 2]),
    "a loss of another kind": lambda run: rewrite(run, "local_loss", "FedAlign"),
    "a model of another kind": lambda run: rewrite(run, "model", "os.system"),
}


def pickled(run: Path) -> None:
    shutil.copy(run.parent / "hostile.pth", run / "checkpoints" / "round_000006.pth")


@pytest.mark.parametrize("kind", FILES)
def test_what_a_run_must_not_hold_is_refused(kind, run, mark):
    FILES[kind](run)
    with pytest.raises(UserError, match=re.escape(str(run))):
        verify(run, trust=["small_network"])
    assert not mark.exists() and HOSTILE not in sys.modules


def test_nothing_is_imported_from_the_folder_of_a_run(run, mark, monkeypatch):
    monkeypatch.syspath_prepend(run)
    with pytest.raises(ConfigError, match=rf"--trust: .*{HOSTILE}.* is in the run's folder"):
        verify(run, trust=[HOSTILE])
    assert not mark.exists()


def test_a_test_writes_into_the_run_alone(run, run_tool):
    (run / "test").symlink_to(run.parent / "installed")
    code, _, err = run_tool("test", run, "--trust", "small_network")
    assert code == UserError.exit_code and str(run / "test") in err
    (run / "test").unlink()
    code, _, err = run_tool("test", run)
    assert code == UserError.exit_code and "model.network.type" in err


@pytest.mark.parametrize("name", ["iou_by_class.csv", "test_results.json.tmp", "pictures"])
def test_a_test_follows_no_link_of_an_earlier_one(name, run, run_tool):
    place, outside = run / "test" / "round_000006", run.parent / "outside"
    place.mkdir(parents=True)
    outside.mkdir()
    (place / name).symlink_to(outside if name == "pictures" else outside / name)
    code, _, err = run_tool("test", run, "--trust", "small_network")
    assert code == UserError.exit_code and str(place / name) in err
    assert list(outside.iterdir()) == []


def test_a_run_is_tested_from_its_folder(small_run, run_tool, tmp_path):
    arguments = ("--out", tmp_path / "out", "--pictures", 0, "--trust", "small_network")
    code, _, err = run_tool("test", small_run, *arguments)
    assert code == 0, err
    tested = json.loads((tmp_path / "out" / "test_results.json").read_text())
    trained = json.loads((small_run / "results.json").read_text())
    assert tested["domains"]["seen"]["mIoU"] == trained["final"]["seen"]["mIoU"]
    assert tested["config_sha256"] == trained["config_sha256"] and tested["name"] == "small"
    assert not (tmp_path / "out" / "pictures").exists()
    code, _, err = run_tool("test", small_run / "small.py")
    assert code == 2 and "checkpoint: is missing" in err
