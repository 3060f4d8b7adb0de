"""Trackers: the numbers of every round in TensorBoard, Weights & Biases, MLflow and the like.

They are MMEngine's visualization backends, chosen by ``visualizer.vis_backends``. The step is the
round. Trackers mirror ``history.jsonl``: on resume they get the missing rounds, so that no point is
lost or duplicated. Nothing is written outside the work dir or sent anywhere unless the config or a
tracker's own environment variables ask for it.
"""

import importlib.util
import json
import logging
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock
from uuid import uuid4

import numpy as np
from mmengine import Config
from mmengine import visualization as mm
from PIL import Image

from fedseg.config.keys import select
from fedseg.config.schema import check_value
from fedseg.core.hook import FederatedHook
from fedseg.errors import ConfigError
from fedseg.files import write_text
from fedseg.registry import HOOKS, VISBACKENDS, VISUALIZERS, build, find_class

DEFAULT = {"vis_backends": [{"type": "TensorboardVisBackend"}]}
GROUPS = {"norm_": "norm/", "bytes_": "traffic/bytes_"}


def scalars(record: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers of a line of the history, by the names that trackers show.

    Metrics by their own name, ``<domain>/<metric>``; ``seconds/...``; ``norm/...``;
    ``traffic/bytes_down`` and ``traffic/bytes_up``; everything else, such as what an algorithm or a
    hook adds, as ``train/...``. ``train/rejected`` counts updates.
    """
    values = dict(record.get("metrics") or {})
    values |= {f"seconds/{name}": taken for name, taken in (record.get("seconds") or {}).items()}
    for key, value in record.items():
        group = next((start for start in GROUPS if key.startswith(start)), "")
        values[GROUPS.get(group, "train/") + key.removeprefix(group)] = value
    values["train/rejected"] = len(record.get("rejected") or [])
    del values["train/round"]
    plain = {name: v.tolist() if hasattr(v, "tolist") else v for name, v in values.items()}
    return {n: v for n, v in plain.items() if isinstance(v, int | float) and math.isfinite(v)}


@VISUALIZERS.register_module()
class LazyVisualizer(mm.Visualizer):
    """MMEngine's, but creates its figure, and imports matplotlib, only for the first image."""

    def _initialize_fig(self, fig_cfg: Mapping[str, Any]) -> tuple:
        return None, SimpleNamespace(get_dpi=int), None

    def set_image(self, image: np.ndarray) -> None:
        """Show an image, which all drawing starts with."""
        if self.ax_save is None:
            figure = super()._initialize_fig(self.fig_save_cfg)
            self.fig_save_canvas, self.fig_save, self.ax_save = figure
            self.dpi = self.fig_save.get_dpi()
        super().set_image(image)


def build_visualizer(config: Any, name: str) -> mm.Visualizer:
    """The visualizer of a config, without its backends: they start with training."""
    options = {"type": "LazyVisualizer", **(config or {}), "name": name, "vis_backends": []}
    return build(VISUALIZERS, options, "visualizer")


def build_trackers(config: Any, work_dir: str | Path, name: str) -> dict[str, mm.BaseVisBackend]:
    """The backends of a config's ``visualizer``, by config field; none is started."""
    options = (DEFAULT if config is None else config).get("vis_backends") or []
    options = [options] if isinstance(options, Mapping) else options
    check_value("visualizer.vis_backends", options, Sequence[Mapping])
    work_dir, trackers = Path(work_dir).absolute(), {}
    for number, backend in enumerate(options):
        field = f"visualizer.vis_backends[{number}]"
        kind = find_class(VISBACKENDS, backend, field)
        folder = str(work_dir / getattr(kind, "folder", "vis_data"))
        tracker = build(VISBACKENDS, backend, field, base=mm.BaseVisBackend, save_dir=folder)
        tracker.run_name, tracker.work_dir = name, work_dir
        trackers[field] = tracker
    return trackers


def add_round(tracker: mm.BaseVisBackend, record: Mapping[str, Any]) -> None:
    """Give a tracker a line of the history that it does not have yet."""
    if record["round"] > tracker.newest:
        if record.get("initial_metrics"):
            tracker.add_scalars(dict(record["initial_metrics"]), step=0)
        tracker.add_scalars(scalars(record), step=record["round"])
        tracker.newest = record["round"]


@HOOKS.register_module()
class TrackersHook(FederatedHook):
    """Starts the trackers with training, gives them every round, and closes them."""

    _record: dict[str, Any] | None = None

    def before_run(self, runner: Any) -> None:
        """Refuse a tracker that is not installed, before an earlier run is moved aside."""
        for field, tracker in runner.trackers.items():
            package = getattr(tracker, "package", "mmengine")
            if importlib.util.find_spec(package) is None:
                extra = f"{field}: {package} is not installed: install the extra 'trackers'"
                raise ConfigError(f"{extra}, or leave this tracker out")

    def before_train(self, runner: Any) -> None:
        config, history = runner.cfg.copy(), runner.history.read()
        config["experiment_name"] = runner.name
        for field, tracker in runner.trackers.items():
            runner.visualizer._vis_backends[field] = tracker
            tracker.newest = len(history)  # a backend of the user's own may have earlier rounds
            try:
                tracker.add_config(config)
                for record in history:
                    add_round(tracker, record)
            except Exception as error:  # whatever a tracker's package raises
                reason = f"cannot start ({type(error).__name__}: {error})"
                raise ConfigError(
                    f"{field}: {reason}; correct its options, or leave it out"
                ) from error

    def after_round(self, runner: Any, record: dict[str, Any]) -> None:
        self._record = record  # an evaluation adds its metrics to it

    def after_train_epoch(self, runner: Any) -> None:
        # a run that was stopped between a round and its evaluation resumes with the latter
        record = self._record or runner.history.read()[-1]
        for field, tracker in list(runner.visualizer._vis_backends.items()):
            try:
                add_round(tracker, record)
            except Exception as error:  # a tracker is never worth a run
                runner.logger.warning(f"{field}: failed and is left out: {error!r}")
                del runner.visualizer._vis_backends[field]

    def after_stop(self, runner: Any) -> None:
        while runner.visualizer._vis_backends:
            field, tracker = runner.visualizer._vis_backends.popitem()
            tracker.finished = runner.train_loop.round == runner.max_rounds
            try:
                tracker.close()
            except Exception as error:
                runner.logger.warning(f"{field}: not closed: {error!r}")


class Tracker(mm.BaseVisBackend):
    """Base of the three that continue the curves of a resumed run: ``newest`` says from where."""

    package = folder = ""  # what must be installed; where it writes in the work dir

    @property
    def id_file(self) -> Path:
        """The file of a run's id, for when it is resumed."""
        return self.work_dir / self.package / "run_id"

    def add_scalar(self, name: str, value: float, step: int = 0, **_: Any) -> None:
        self.add_scalars({name: float(value)}, step)


def _plain(config: Config) -> dict[str, Any]:
    return json.loads(json.dumps(config.to_dict(), default=str))


@VISBACKENDS.register_module(name="TensorboardVisBackend")
class TensorBoardTracker(Tracker, mm.TensorboardVisBackend):
    """Event files in ``tensorboard``; TensorBoard drops points that a resumed run writes again.

    Besides scalars: the config as text, hyper-parameters with the metrics, predictions as images.
    ``save_dir`` names another folder.
    """

    package = folder = "tensorboard"

    def add_config(self, config: Config, **_: Any) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._tensorboard = SummaryWriter(self._save_dir, purge_step=0, flush_secs=10)
        self._env_initialized, self.newest, self._names = True, 0, set()
        config = _plain(config)
        code = "\n".join(f"    {line}" for line in json.dumps(config, indent=1).splitlines())
        self._tensorboard.add_text("config", code)
        options = select(config, "identity", "method", "protocol").items()
        self._options = {k: v if isinstance(v, int | float | str) else str(v) for k, v in options}

    def add_scalars(self, scalars: Mapping[str, float], step: int = 0, *_: Any, **__: Any) -> None:
        self._names |= scalars.keys()
        for name, value in scalars.items():
            self._tensorboard.add_scalar(name, value, step)

    def close(self) -> None:
        from torch.utils.tensorboard.summary import hparams

        others = "train/", "norm/", "seconds/", "traffic/"
        metrics = {name: 0.0 for name in self._names if not name.startswith(others)}
        for part in hparams(self._options, metrics):
            self._tensorboard.file_writer.add_summary(part)
        super().close()

    def add_pictures(self, paths: Iterable[Path], step: int) -> None:
        """Predictions, ``<domain>/<image>.png``, of a run that has ended and closed its tracker."""
        for path in paths:
            pixels = np.asarray(Image.open(path).convert("RGB"))
            self.add_image(f"{path.parent.name}/{path.stem}", pixels, step)
        super().close()


@VISBACKENDS.register_module(name="WandbVisBackend")
class WandbTracker(Tracker, mm.WandbVisBackend):
    """A run of Weights & Biases; offline unless ``init_kwargs.mode`` or ``WANDB_MODE`` is set.

    The options are MMEngine's. Of ``init_kwargs``, ``project`` is ``"fedseg"`` by default.
    """

    package = "wandb"  # makes a folder of this name

    def add_config(self, config: Config, **_: Any) -> None:
        folder, known = self.id_file.parent, self.id_file.is_file()
        mode = (self._init_kwargs or {}).get("mode") or os.environ.get("WANDB_MODE", "offline")
        usual = {"MODE": mode, "PROJECT": "fedseg", "NAME": self.run_name, "RESUME": "allow"}
        usual["RUN_ID"] = self.id_file.read_text().strip() if known else uuid4().hex[:8]
        usual |= {f"{name.upper()}_DIR": str(folder / name) for name in ("cache", "config", "data")}
        usual |= {"CONSOLE": "off", "DISABLE_GIT": "true", "ERROR_REPORTING": "false"}
        usual |= {"DISABLE_CODE": "true", "SILENT": str(mode == "offline").lower()}
        usual = {f"WANDB_{name}": value for name, value in usual.items()}
        with mock.patch.dict(os.environ, {**usual, **os.environ}):  # options go before these
            self._init_env()
        run = self._wandb.run
        write_text(self.id_file, run.id + "\n")
        run.config.update(_plain(config), allow_val_change=True)
        if self._log_code_name is not None:
            run.log_code(name=self._log_code_name)
        self._env_initialized, self.newest = True, max(0, run.step - 1)

    def add_image(self, name: str, image: np.ndarray, step: int = 0, **_: Any) -> None:
        self._wandb.log({name: self._wandb.Image(image)}, step=step)

    def add_scalars(self, scalars: Mapping[str, float], step: int = 0, *_: Any, **__: Any) -> None:
        self._wandb.log(dict(scalars), step=step)

    def close(self) -> None:
        self._wandb.finish(exit_code=0 if self.finished else 1)


@VISBACKENDS.register_module(name="MLflowVisBackend")
class MLflowTracker(Tracker, mm.MLflowVisBackend):
    """A run of MLflow, in a database of the work dir unless ``tracking_uri`` names a server.

    The options are MMEngine's, but the files stay in the work dir, whatever ``artifact_suffix``.
    ``exp_name``, of the experiment, is ``"fedseg"`` by default.
    """

    package = folder = "mlflow"

    def add_config(self, config: Config, **_: Any) -> None:
        with mock.patch.dict(os.environ, {"MLFLOW_DISABLE_TELEMETRY": "true", **os.environ}):
            # a client, not MLflow's functions: they keep one run and one server for the process
            from mlflow import MlflowClient
            from mlflow.entities import Param
            from mlflow.exceptions import MlflowException

        logging.getLogger("mlflow").setLevel(logging.WARNING)
        folder = self.id_file.parent
        uri = self._tracking_uri or os.environ.get("MLFLOW_TRACKING_URI")
        if not uri:
            folder.mkdir(parents=True, exist_ok=True)
            uri = f"sqlite:///{folder / 'mlflow.db'}"
            self._artifact_location = self._artifact_location or (folder / "artifacts").as_uri()
        client = self._mlflow = MlflowClient(tracking_uri=uri, registry_uri=uri)
        try:
            self._run = self.id_file.read_text().strip()
            client.update_run(self._run, status="RUNNING")
        except (FileNotFoundError, MlflowException):  # a new run, or not in this store
            experiment = client.get_experiment_by_name(name := self._exp_name or "fedseg")
            number = experiment and experiment.experiment_id
            number = number or client.create_experiment(name, self._artifact_location)
            about = {"run_name": self._run_name or self.run_name, "tags": self._tags}
            self._run = client.create_run(number, **about).info.run_id
        write_text(self.id_file, self._run + "\n")
        config = _plain(config)
        fields = self._flatten({k: config[k] for k in self._tracked_config_keys or config})
        logged = client.get_run(self._run).data.params  # these stay what they were
        new = {k: v for k, v in {**fields, **(self._params or {})}.items() if k not in logged}
        client.log_batch(self._run, params=[Param(k, str(v)) for k, v in new.items()])
        history = client.get_metric_history(self._run, "train/lr")
        self._env_initialized, self.newest = True, max((m.step for m in history), default=0)

    def add_image(self, name: str, image: np.ndarray, step: int = 0, **_: Any) -> None:
        self._mlflow.log_image(self._run, image, key=name, step=step)

    def add_scalars(self, scalars: Mapping[str, float], step: int = 0, *_: Any, **__: Any) -> None:
        from mlflow.entities import Metric

        when = round(1000 * time.time())
        metrics = [Metric(name, float(value), when, step) for name, value in scalars.items()]
        self._mlflow.log_batch(self._run, metrics=metrics)

    def close(self) -> None:
        self._mlflow.set_terminated(self._run, "FINISHED" if self.finished else "KILLED")
