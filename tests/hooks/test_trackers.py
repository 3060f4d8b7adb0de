"""Trackers: every round once, with the history's values, in the work dir and without a network."""

import json
import os
import re
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import toyseg
from mmengine.visualization import BaseVisBackend, Visualizer

from fedseg.core.hook import FederatedHook
from fedseg.errors import ConfigError
from fedseg.hooks import trackers
from fedseg.hooks.trackers import build_visualizer, scalars
from fedseg.registry import HOOKS, VISBACKENDS

FEW = {"max_rounds": 4, "val_interval": 2}


def settings(folder: Path, *backends: dict | str, **changes):
    """A toy run of four rounds with these backends."""
    given = [{"type": b} if isinstance(b, str) else b for b in backends]
    visualizer = {"visualizer": {"vis_backends": given}}
    return toyseg.settings(folder, **{"train_cfg": FEW, **visualizer, **changes})


def resume(config, rounds: int) -> dict:
    """Go on for more rounds, as if killed in the round after the last but one checkpoint."""
    folder = Path(config["work_dir"])
    newest = sorted((folder / "checkpoints").glob("round_*.pth"))[-1]
    newest.unlink()
    (folder / "results.json").unlink()
    longer = toyseg.merge(config, {"train_cfg": {"max_rounds": rounds}})
    toyseg.train(longer, resume=True)
    return longer


def files(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def test_the_numbers_of_a_line_of_the_history():
    record = {
        "round": 3,
        "participants": [{"client": "a", "samples": 1, "steps": 1, "loss": 1.0}],
        "lr": 0.1,
        "loss": None,
        "rejected": [{"client": "a", "exchange": 0, "reason": "x"}],
        "bytes_down": 10,
        "bytes_up": 20,
        "norm_w": 1.5,
        "norm_control": float("nan"),
        "mystery": 7,
        "text": "x",
        "client_accuracy": [1.0, None],
        "seconds": {"train": 1.0},
        "metrics": {"unseen/mIoU": 45.0, "global:unseen/mIoU": None},
    }
    assert scalars(record) == {
        "train/lr": 0.1,
        "train/rejected": 1,
        "train/mystery": 7,
        "traffic/bytes_down": 10,
        "traffic/bytes_up": 20,
        "norm/w": 1.5,
        "seconds/train": 1.0,
        "unseen/mIoU": 45.0,
    }


def events(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """The points that TensorBoard shows of a folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(folder))
    read.Reload()
    tags = read.Tags()["scalars"]
    return {tag: [(e.step, e.value) for e in read.Scalars(tag)] for tag in tags}


def expected(config) -> dict[str, list[tuple[int, float]]]:
    """The points that the history says."""
    points: dict[str, list[tuple[int, float]]] = {}
    for record in toyseg.history(config):
        for name, value in scalars(record).items():
            points.setdefault(name, []).append((record["round"], pytest.approx(value, rel=1e-6)))
    return points


def test_tensorboard_is_the_default(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    config = toyseg.run(tmp_path, train_cfg=FEW)
    assert files(tmp_path / "elsewhere") == set()
    found = events(tmp_path / "run" / "tensorboard")
    assert {"train/loss", "norm/w", "norm/delta", "traffic/bytes_up"} <= found.keys()
    assert {"unseen/accuracy", "seen/accuracy", "seen_by_domain/accuracy"} <= found.keys()
    assert found == expected(config)
    assert [step for step, _ in found["train/loss"]] == [1, 2, 3, 4]
    assert [step for step, _ in found["unseen/accuracy"]] == [2, 4]


def test_tensorboard_has_config_hyperparameters_and_predictions(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    config = toyseg.settings(tmp_path, train_cfg=FEW)
    config["default_hooks"] = {**config.get("default_hooks", {}), "pictures": {"images": 1}}
    config["default_hooks"]["pictures"]["type"] = "PicturesHook"
    toyseg.train(config)
    read = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    read.Reload()
    images = {tag.split("/")[0] for tag in read.Tags()["images"]}
    assert images == {"seen", "seen_by_domain", "unseen"}
    (text,) = read.Tensors("config/text_summary")
    assert "FederatedTrainLoop" in text.tensor_proto.string_val[0].decode()
    plugin = read.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    found = HParamsPluginData.FromString(plugin).session_start_info.hparams
    assert found["algorithm.type"].string_value == config["algorithm"]["type"]
    assert found["train_cfg.max_rounds"].number_value == 4
    plugin = read.summary_metadata["_hparams_/experiment"].plugin_data.content
    metrics = HParamsPluginData.FromString(plugin).experiment.metric_infos
    assert "unseen/accuracy" in {metric.name.tag for metric in metrics}


def test_a_resumed_run_has_every_point_once(tmp_path):
    config = toyseg.run(tmp_path, train_cfg=FEW, averaging={"start": 2})
    folder = tmp_path / "run" / "tensorboard"
    for file in folder.iterdir():
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2])  # what a kill leaves of what was not flushed
    time.sleep(1)  # TensorBoard orders files by the second in their names
    longer = resume(config, 6)
    assert events(folder) == expected(longer)
    assert [step for step, _ in events(folder)["train/lr"]] == [1, 2, 3, 4, 5, 6]


def test_plans_and_tests_track_nothing(tmp_path):
    config = toyseg.run(tmp_path, train_cfg=FEW)
    tested = toyseg.merge(config, {"work_dir": str(tmp_path / "tested")})
    runner = toyseg.runner(tested)
    runner.test(tmp_path / "run" / "checkpoints" / "round_000004.pth")
    assert not any("tensorboard" in name for name in files(tmp_path / "tested"))


@VISBACKENDS.register_module(force=True)
class ToyTracker(BaseVisBackend):
    """Keeps what it is given; may break at its start or in a round."""

    def __init__(self, save_dir: str, breaks: str | int | None = None, label: str = "") -> None:
        super().__init__(save_dir)
        self.breaks, self.given, self.images, self.closed = breaks, {}, [], 0

    def _init_env(self) -> None: ...

    @property
    def experiment(self):
        return self

    def add_config(self, config, **kwargs):
        if self.breaks == "start":
            raise RuntimeError("no such server")
        self.config = config

    def add_scalars(self, scalar_dict, step=0, file_path=None, **kwargs):
        if self.breaks == step:
            raise ConnectionError("the server is gone")
        self.given[step] = dict(scalar_dict)

    def add_image(self, name, image, step=0, **kwargs):
        self.images.append((name, step))

    def close(self):
        self.closed += 1


@HOOKS.register_module(force=True)
class ShowImage(FederatedHook):
    def after_round(self, runner, record):
        runner.visualizer.add_image("client", None, step=runner.round)


def toy_trackers(runner) -> list[ToyTracker]:
    return list(runner.trackers.values())


def test_a_visualizer_draws_as_mmengines_does():
    lazy, own = build_visualizer(None, "lazy"), Visualizer("own")
    assert lazy.ax_save is None
    for visualizer in (lazy, own):
        visualizer.set_image(np.full((20, 30, 3), 99, np.uint8))
        visualizer.draw_circles(torch.tensor([[10, 8]]), torch.tensor([5]))
    assert (lazy.get_image() == own.get_image()).all()
    assert len(np.unique(own.get_image())) > 1
    assert Visualizer.get_current_instance() is lazy


def test_a_backend_of_ones_own_gets_rounds_config_and_images(tmp_path):
    config = settings(tmp_path, "ToyTracker", custom_hooks=[{"type": "ShowImage"}])
    runner = toyseg.train(config)
    (tracker,) = toy_trackers(runner)
    assert tracker.given == {r["round"]: scalars(r) for r in toyseg.history(config)}
    assert tracker.config.train_cfg.max_rounds == 4 and tracker.closed == 1
    assert tracker.config.experiment_name == runner.name
    assert tracker.images == [("client", round_) for round_ in (1, 2, 3, 4)]


def test_a_tracker_that_fails_costs_nothing_but_itself(tmp_path):
    broken = {"type": "ToyTracker", "breaks": 2}
    config = settings(tmp_path / "a", broken, "ToyTracker", custom_hooks=[{"type": "ShowImage"}])
    runner = toyseg.train(config)
    lost, kept = toy_trackers(runner)
    assert list(lost.given) == [1] and list(kept.given) == [1, 2, 3, 4]
    assert len(lost.images) == 2 and len(kept.images) == 4
    log = toyseg.logs(config)
    assert log.count("visualizer.vis_backends[0]: failed") == 1 and "the server is gone" in log

    untracked = settings(tmp_path / "b", custom_hooks=[{"type": "ShowImage"}])
    toyseg.train(untracked)
    assert toyseg.run_differences(config, untracked) == []
    assert not any("tensorboard" in name for name in files(tmp_path))


def test_a_tracker_that_cannot_start_stops_the_run_before_training(tmp_path):
    config = settings(tmp_path, "ToyTracker", {"type": "ToyTracker", "breaks": "start"})
    runner = toyseg.runner(config)
    with pytest.raises(ConfigError, match=r"visualizer\.vis_backends\[1\]: .*no such server"):
        runner.train()
    first, _ = toy_trackers(runner)
    assert first.closed == 1 and first.given == {}
    assert not (tmp_path / "run" / "history.jsonl").exists()


def test_a_wrong_list_of_backends_is_refused_at_once(tmp_path):
    for field, visualizer in (
        ("visualizer.vis_backends", {"vis_backends": "wandb"}),
        ("visualizer.vis_backends[0]", {"vis_backends": ["wandb"]}),
        ("visualizer.vis_backends[0].type", {"vis_backends": [{"type": ""}]}),
    ):
        message = f"^{re.escape(field)}: {'unknown' * field.endswith('type')}"
        with pytest.raises(ConfigError, match=message):
            toyseg.runner(toyseg.settings(tmp_path, visualizer=visualizer))


def test_a_missing_package_is_refused_before_an_earlier_run_is_moved(tmp_path, monkeypatch):
    monkeypatch.setattr(trackers.importlib.util, "find_spec", lambda name: None)
    earlier = tmp_path / "run" / "history.jsonl"
    earlier.parent.mkdir()
    earlier.write_text("")
    for kind in ("WandbVisBackend", "MLflowVisBackend", "TensorboardVisBackend"):
        runner = toyseg.runner(settings(tmp_path, kind))  # enough for a test of a checkpoint
        with pytest.raises(ConfigError, match=r"vis_backends\[0\]"):
            runner.train()
        assert earlier.exists()


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home and a working folder of the test's own, which stay empty; no tracker's variables."""
    folder = tmp_path / "home"
    folder.mkdir()
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(folder))
    for name in list(os.environ):
        if name.startswith(("WANDB_", "MLFLOW_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(folder)
    return folder


def test_mlflow_keeps_its_runs_in_the_work_dir(tmp_path, home):
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed")
    pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")
    mlflow_backend = {"type": "MLflowVisBackend", "tags": {"why": "test"}}
    config = settings(tmp_path, mlflow_backend, averaging={"start": 2})
    toyseg.train(config)
    longer = resume(config, 5)

    uri = f"sqlite:///{tmp_path / 'run' / 'mlflow' / 'mlflow.db'}"
    client = mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri)
    experiment = client.get_experiment_by_name("fedseg")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED" and run.data.tags["why"] == "test"
    assert run.data.params["optim_wrapper.optimizer.lr"] == "0.1"
    assert run.data.params["custom_imports.imports"] == "['toyseg']"
    found = {
        name: sorted((m.step, m.value) for m in client.get_metric_history(run.info.run_id, name))
        for name in run.data.metrics
    }
    wanted = {name: points for name, points in expected(longer).items()}
    assert found.keys() == wanted.keys()
    timed = {name for name in wanted if name.startswith("seconds/")}  # round 4 was run twice
    assert {n: v for n, v in found.items() if n not in timed} == {
        n: v for n, v in wanted.items() if n not in timed
    }
    assert [step for step, _ in found["seconds/train"]] == [1, 2, 3, 4, 5]
    assert files(home) == set()


def wandb_history(file: Path) -> list[dict]:
    """The rows in a ``.wandb`` file: a log of blocks of 32 KiB, as LevelDB writes it."""
    from wandb.proto import wandb_internal_pb2

    data, rows, whole = file.read_bytes(), [], b""
    position = 7  # after the file's own header
    while position + 7 <= len(data):
        if 32768 - position % 32768 < 7:  # no header fits into the rest of a block
            position += 32768 - position % 32768
            continue
        length = int.from_bytes(data[position + 4 : position + 6], "little")
        kind = data[position + 6]
        whole += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # a full record, or the last part of one
            record = wandb_internal_pb2.Record()
            record.ParseFromString(whole)
            whole = b""
            if record.WhichOneof("record_type") == "history":
                items = record.history.item
                rows.append(
                    {i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in items}
                )
    return rows


def test_wandb_is_offline_and_stays_in_the_work_dir(tmp_path, home):
    wandb = pytest.importorskip("wandb", reason="Weights & Biases is not installed")
    backends = [{"type": "WandbVisBackend"}, {"type": "TensorboardVisBackend"}]
    config = settings(tmp_path, *backends, averaging={"start": 2})
    toyseg.train(config)
    longer = resume(config, 5)
    wandb.teardown()

    first, second = sorted((tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb"))
    assert first.name == second.name  # one run, the second part with all that there was before
    records = toyseg.history(longer)
    rows = wandb_history(second)
    assert [row["_step"] for row in rows] == [1, 2, 3, 4, 5]
    for row, record in zip(rows, records, strict=True):
        own = {name: value for name, value in row.items() if not name.startswith("_")}
        assert own == pytest.approx(scalars(record))
    assert [row["_step"] for row in wandb_history(first)] == [1, 2, 3, 4]
    assert events(tmp_path / "run" / "tensorboard") == expected(longer)
    assert files(home) == set()
    assert "code" not in {p.parent.name for p in (tmp_path / "run" / "wandb").rglob("*.py")}
