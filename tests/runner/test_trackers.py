"""Trackers: MMEngine's backends get every round with the history's values, in the work dir."""

import json
import re
import sys
import urllib.request
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from urllib.error import HTTPError, URLError

import pytest
import toyseg
from mmengine.visualization import BaseVisBackend
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fedseg.errors import ConfigError
from fedseg.registry import VISBACKENDS
from fedseg.runner.experiment import load_config
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


# ---------------------------------------------------------------- --tracker


def stand_in(monkeypatch, name: str, **functions) -> None:
    """Put a module in the place of a package."""
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    vars(module).update(functions)
    monkeypatch.setitem(sys.modules, name, module)


class Wandb:
    """What is called of Weights & Biases; ``runs`` has the options and rounds of each start."""

    def __init__(self, monkeypatch) -> None:
        self.runs = []
        self.x_axes = []
        stand_in(
            monkeypatch,
            "wandb",
            init=self.init,
            log=lambda scalars, commit: self.runs[-1][1].append(scalars["train/round"]),
            define_metric=lambda **options: self.x_axes.append(options),
            join=lambda: None,
        )

    def init(self, **options) -> None:
        self.runs.append((options, []))
        module = sys.modules["wandb"]
        module.run = SimpleNamespace(id=options["id"], log_code=lambda name: None)
        module.config = SimpleNamespace(update=self.update)

    def update(self, values, allow_val_change) -> None:
        assert allow_val_change and values["experiment_name"] == "toy"


class MLflow:
    """What is called of MLflow; ``calls`` has each but those of single rounds, ``rounds`` these."""

    def __init__(self, monkeypatch) -> None:
        self.calls, self.rounds, self.run = [], [], None
        names = ("set_tracking_uri", "create_experiment", "set_experiment", "set_tag", "set_tags")
        names += ("log_params", "log_text", "log_artifact")
        stand_in(
            monkeypatch,
            "mlflow",
            **{name: self.recorder(name) for name in names},
            get_tracking_uri=lambda: "sqlite:///mlflow.db",
            get_experiment_by_name=lambda name: None,
            start_run=self.start_run,
            active_run=lambda: SimpleNamespace(info=SimpleNamespace(run_id=self.run)),
            log_metrics=lambda values, step: self.rounds.append((self.run, step)),
            end_run=self.end_run,
            MlflowException=RuntimeError,
        )

    def recorder(self, name):
        def record(*arguments, **options) -> None:
            self.run = self.run or "first"  # MLflow starts a run when one is needed
            self.calls.append((name, *arguments))

        return record

    def start_run(self, run_id) -> None:
        self.run = run_id
        self.calls.append(("start_run", run_id))

    def end_run(self) -> None:
        self.run = None

    def named(self, name):
        """The arguments of the calls of a function."""
        return [arguments for called, *arguments in self.calls if called == name]


def named_settings(folder, *backends: dict):
    """A toy run of four rounds that has a name, a setting, methods and a seed."""
    return settings(
        folder,
        *backends,
        experiment_name="toy",
        setting="toy_setting",
        methods=["swa", "silobn"],
        randomness={"seed": 3},
        averaging={"start": 2},
    )


def resume_longer(config):
    """Train two more rounds of a finished run."""
    longer = toyseg.merge(config, {"train_cfg": {"max_rounds": 6}})
    return toyseg.train(longer, resume=True)


def test_wandb_has_the_name_the_tags_and_one_run_for_all_resumes(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    wandb = Wandb(monkeypatch)
    config = named_settings(tmp_path, {"type": "WandbVisBackend"})
    toyseg.train(config)
    resume_longer(config)
    (first, rounds), (second, later) = wandb.runs
    assert (first["project"], first["group"], first["name"]) == ("fedseg", "toy", "toy seed3")
    assert first["tags"] == ["toy_setting", "swa", "silobn", "seed3"]
    assert first["resume"] == "allow" and first["id"] == second["id"]
    assert rounds == [1, 2, 3, 4] and later == [5, 6]
    assert "mode" not in first  # the environment says it
    assert wandb.x_axes[0] == {"name": "*", "step_metric": "train/round"}

    toyseg.train(toyseg.merge(config, {"overwrite": True}))
    assert wandb.runs[2][0]["id"] != first["id"]


def test_options_of_the_config_come_first(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    wandb = Wandb(monkeypatch)
    given = {"project": "drift", "tags": ["mine"], "mode": "disabled"}
    toyseg.train(named_settings(tmp_path, {"type": "WandbVisBackend", "init_kwargs": given}))
    assert given.items() <= wandb.runs[0][0].items()


@pytest.mark.parametrize(
    ("answer", "mode"),
    [
        (URLError("no route"), "offline"),
        (TimeoutError("slow"), "offline"),
        (HTTPError("", 404, "there is a server", {}, None), None),
        (None, None),
    ],
)
def test_wandb_is_offline_where_its_server_does_not_answer(tmp_path, monkeypatch, answer, mode):
    addresses = []

    def urlopen(address, timeout):
        addresses.append(address)
        if answer is not None:
            raise answer
        return SimpleNamespace(close=lambda: None)

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.org")
    wandb = Wandb(monkeypatch)
    toyseg.train(named_settings(tmp_path, {"type": "WandbVisBackend"}))
    assert wandb.runs[0][0].get("mode") == mode
    assert addresses == ["https://wandb.example.org"]


def test_mlflow_has_the_name_the_tags_and_one_run_for_all_resumes(tmp_path, monkeypatch):
    mlflow = MLflow(monkeypatch)
    config = named_settings(tmp_path, {"type": "MLflowVisBackend"})
    toyseg.train(config)
    assert mlflow.named("set_experiment") == [["fedseg"]]
    assert mlflow.named("set_tag") == [["mlflow.runName", "toy seed3"]]
    tags = {"setting": "toy_setting", "methods": "swa silobn", "seed": "3"}
    assert mlflow.named("set_tags") == [[tags]]
    assert mlflow.named("log_params")[0][0]["experiment_name"] == "toy"
    assert mlflow.named("start_run") == []

    resume_longer(config)
    assert mlflow.named("start_run") == [["first"]]
    assert mlflow.named("log_params")[1:] == [[{}]]  # MLflow would refuse other values
    assert mlflow.rounds == [("first", round_) for round_ in range(1, 7)]


def test_mlflow_keeps_the_run_in_its_database(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db")
    config = named_settings(tmp_path, {"type": "MLflowVisBackend"})
    toyseg.train(config)
    resume_longer(config)
    (run,) = mlflow.search_runs(experiment_names=["fedseg"], output_format="list")
    assert run.info.run_name == "toy seed3" and run.data.tags["methods"] == "swa silobn"
    assert run.data.params["train_cfg.max_rounds"] == "4"  # of the first start
    points = mlflow.MlflowClient().get_metric_history(run.info.run_id, "train/loss")
    losses = {record["round"]: record["loss"] for record in toyseg.history(config)}
    assert {point.step: point.value for point in points} == losses and len(losses) == 6


def test_wandb_keeps_the_run_in_the_work_dir(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    config = named_settings(tmp_path, {"type": "WandbVisBackend"})
    toyseg.train(config)
    folder = tmp_path / "run" / "vis_data"
    (file,) = folder.glob("wandb/offline-run-*/*.wandb")
    tracked = json.loads((folder / "tracked.json").read_text())
    assert file.name == f"run-{tracked['wandb']}.wandb"


def test_a_tracked_run_that_is_gone_is_no_obstacle(tmp_path, monkeypatch):
    mlflow = MLflow(monkeypatch)
    config = named_settings(tmp_path, {"type": "MLflowVisBackend"})
    toyseg.train(config)

    def start_run(run_id):
        raise RuntimeError(f"no run {run_id}")

    monkeypatch.setattr(sys.modules["mlflow"], "start_run", start_run)
    with pytest.raises(ConfigError, match=r"no run first.*remove vis_data/tracked\.json"):
        resume_longer(config)
    (tmp_path / "run" / "vis_data" / "tracked.json").unlink()
    resume_longer(config)
    assert mlflow.rounds[-1] == ("first", 6)


def test_the_flag_chooses_trackers_and_keeps_their_options(small_config):
    config = load_config(small_config, trackers=["tensorboard", "tensorboard"])
    assert config.visualizer.vis_backends == [{"type": "TensorboardVisBackend"}]
    own = {"type": "TensorboardVisBackend", "mine": 1}
    options = {"visualizer.vis_backends": [{"type": "LocalVisBackend"}, own]}
    config = load_config(small_config, options=options, trackers=["tensorboard"])
    assert config.visualizer.vis_backends == [own]


def test_a_tracker_that_is_unknown_or_not_installed_is_refused(small_config, monkeypatch):
    with pytest.raises(ConfigError, match=r"^--tracker: unknown 'neptune'; known: tens"):
        load_config(small_config, trackers=["neptune"])
    monkeypatch.setattr("fedseg.runner.experiment.find_spec", lambda name: None)
    for name in ("wandb", "mlflow"):
        message = f"^--tracker {name}: the package {name} is not installed: pip install {name}$"
        with pytest.raises(ConfigError, match=message):
            load_config(small_config, trackers=[name])
