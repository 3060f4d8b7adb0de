"""Trackers: MMEngine's backends get every round with the history's values, in the work dir."""

import re

import pytest
import toyseg
from mmengine.visualization import BaseVisBackend
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fedseg.errors import ConfigError
from fedseg.registry import VISBACKENDS
from fedseg.runner.trackers import scalars

FEW = {"max_rounds": 4, "val_interval": 2}


def settings(folder, *backends: dict, **changes):
    """A toy run of four rounds with these backends."""
    visualizer = {"vis_backends": list(backends)}
    return toyseg.settings(folder, train_cfg=FEW, visualizer=visualizer, **changes)


def test_the_numbers_of_a_line_of_the_history():
    record = {
        "round": 3,
        "participants": [{"client": "a", "samples": 1, "steps": 1, "loss": 1.0}],
        "lr": 0.1,
        "loss": None,
        "rejected": [{"client": "a", "exchange": 0, "reason": "x"}],
        "bytes_down": 10,
        "norm_w": 1.5,
        "norm_control": float("nan"),
        "mystery": 7,
        "text": "x",
        "client_accuracy": [1.0, None],
        "seconds": {"train": 1.0},
        "metrics": {"unseen/mIoU": 45.0, "global:unseen/mIoU": None},
    }
    assert scalars(record) == {
        "train/round": 3,
        "train/lr": 0.1,
        "train/rejected": 1,
        "train/mystery": 7,
        "traffic/bytes_down": 10,
        "norm/w": 1.5,
        "seconds/train": 1.0,
        "unseen/mIoU": 45.0,
    }


def test_tensorboard_is_the_default_and_has_what_the_history_has(tmp_path):
    config = toyseg.run(tmp_path, train_cfg=FEW, visualizer=None)
    events = EventAccumulator(str(tmp_path / "run" / "vis_data"))
    events.Reload()
    points = {}
    for record in toyseg.history(config):
        for name, value in scalars(record).items():
            points.setdefault(name, []).append((record["round"], pytest.approx(value, rel=1e-6)))
    assert {"train/loss", "norm/w", "traffic/bytes_up", "unseen/accuracy"} <= points.keys()
    assert set(events.Tags()["scalars"]) == points.keys()
    for name, expected in points.items():
        assert [(event.step, event.value) for event in events.Scalars(name)] == expected
    (text,) = events.Tensors("config/text_summary")
    assert "FederatedTrainLoop" in text.tensor_proto.string_val[0].decode()


@VISBACKENDS.register_module(force=True)
class ToyTracker(BaseVisBackend):
    """Keeps what it is given; may break at its start or in a round."""

    def __init__(self, save_dir: str, breaks: str | int | None = None) -> None:
        super().__init__(save_dir)
        self.breaks, self.given, self.closed = breaks, {}, 0

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

    def close(self):
        self.closed += 1


def test_a_backend_gets_the_config_every_round_and_the_rounds_of_a_resumed_run(tmp_path):
    config = settings(tmp_path, {"type": "ToyTracker"}, averaging={"start": 2})
    runner = toyseg.train(config)
    tracker = runner.visualizer.get_backend("ToyTracker")
    assert tracker.given == {r["round"]: scalars(r) for r in toyseg.history(config)}
    assert tracker.config.experiment_name == runner.name and tracker.closed == 1

    longer = toyseg.merge(config, {"train_cfg": {"max_rounds": 6}})
    (tmp_path / "run" / "results.json").unlink()
    resumed = toyseg.train(longer, resume=True)
    assert sorted(resumed.visualizer.get_backend("ToyTracker").given) == [5, 6]


def test_a_tracker_that_fails_does_not_stop_the_run(tmp_path):
    config = settings(tmp_path, {"type": "ToyTracker", "breaks": 2})
    tracker = toyseg.train(config).visualizer.get_backend("ToyTracker")
    assert list(tracker.given) == [1] and tracker.closed == 1
    log = toyseg.logs(config)
    assert log.count("visualizer: failed") == 1 and "the server is gone" in log
    assert len(toyseg.history(config)) == 4


def test_a_tracker_that_cannot_start_stops_the_run_before_training(tmp_path):
    runner = toyseg.runner(settings(tmp_path, {"type": "ToyTracker", "breaks": "start"}))
    with pytest.raises(ConfigError, match=r"^visualizer: a tracker cannot start .*no such server"):
        runner.train()
    assert runner.visualizer.get_backend("ToyTracker").closed == 1
    assert not (tmp_path / "run" / "history.jsonl").exists()


@pytest.mark.parametrize(
    ("visualizer", "message"),
    [
        ({"vis_backends": "wandb"}, "visualizer.vis_backends: "),
        ({"vis_backends": ["wandb"]}, "visualizer.vis_backends[0]: "),
        ({"vis_backends": [{"type": "Nothing"}]}, "visualizer.vis_backends[0].type: unknown"),
        ({"vis_backends": [{"type": "ToyTracker"}] * 2}, "visualizer.vis_backends: must differ"),
        ({"type": "SegLocalVisualizer"}, "visualizer.type: unknown"),
    ],
)
def test_a_wrong_visualizer_is_refused_at_once(tmp_path, visualizer, message):
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}"):
        toyseg.runner(toyseg.settings(tmp_path, visualizer=visualizer))


def test_plans_and_tests_track_nothing(tmp_path):
    config = toyseg.run(tmp_path, train_cfg=FEW, visualizer=None)
    runner = toyseg.runner(toyseg.merge(config, {"work_dir": str(tmp_path / "tested")}))
    runner.test(tmp_path / "run" / "checkpoints" / "round_000004.pth")
    assert not list((tmp_path / "tested").rglob("vis_data"))
