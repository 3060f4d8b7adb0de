"""TensorBoard, Weights & Biases and MLflow: MMEngine's backends, adapted to rounds and resuming.

The step is the round, a resumed run continues its curves, nothing is written outside the work dir
or sent anywhere unless the config or the tracker's own environment variables ask for it, and no
source files are collected.
"""

import json
import logging
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import uuid4

import numpy as np
from mmengine.visualization import (
    BaseVisBackend,
    MLflowVisBackend,
    TensorboardVisBackend,
    WandbVisBackend,
)

from fedseg.config.keys import select
from fedseg.files import write_text
from fedseg.registry import VISBACKENDS


class Tracker(BaseVisBackend):
    """Base of the three; :meth:`start` comes first.

    Attributes:
        package: what must be installed.
        folder: where it writes in the work dir, unless ``save_dir`` is set.
        run_name, work_dir: of the run; the path is absolute.
        finished: whether the run is complete when the tracker is closed.
    """

    package = folder = ""
    run_name: str
    work_dir: Path
    finished = False

    def start(self, config: Mapping[str, Any]) -> int:
        """Log the config's plain values; the newest round that the tracker has, or 0."""
        raise NotImplementedError

    def add_scalar(self, name: str, value: float, step: int = 0, **kwargs: Any) -> None:
        self.add_scalars({name: float(value)}, step)


@VISBACKENDS.register_module(name="TensorboardVisBackend")
class TensorBoardTracker(Tracker, TensorboardVisBackend):
    """Event files in ``tensorboard``; TensorBoard drops what a resumed run has written anew.

    Besides scalars: the config as text, hyper-parameters with the metrics, predictions as images.

    Args:
        save_dir: another folder.
    """

    package = folder = "tensorboard"

    def start(self, config: Mapping[str, Any]) -> int:
        from torch.utils.tensorboard import SummaryWriter

        self._tensorboard = SummaryWriter(self._save_dir, purge_step=0, flush_secs=10)
        self._env_initialized = True
        lines = json.dumps(config, indent=1).splitlines()
        self._tensorboard.add_text("config", "".join(f"    {line}\n" for line in lines))  # as code
        chosen = select(config, "identity", "method", "protocol")
        plain = {k: v if isinstance(v, int | float | str) else str(v) for k, v in chosen.items()}
        self._hyperparameters, self._metrics = plain, set()
        return 0

    def add_scalars(self, scalars: Mapping[str, float], step: int = 0, *_: Any, **__: Any) -> None:
        """All scalars of a round as one event, which is many times cheaper than one each."""
        from torch.utils.tensorboard.summary import Summary

        groups = ("train/", "seconds/", "norm/", "traffic/")
        self._metrics |= {name for name in scalars if not name.startswith(groups)}
        values = [Summary.Value(tag=n, simple_value=v) for n, v in scalars.items()]
        self._tensorboard.file_writer.add_summary(Summary(value=values), step)

    def close(self) -> None:
        if hasattr(self, "_tensorboard"):
            from torch.utils.tensorboard.summary import hparams

            for part in hparams(self._hyperparameters, dict.fromkeys(self._metrics, 0.0)):
                self._tensorboard.file_writer.add_summary(part)
        super().close()

    def add_pictures(self, paths: Iterable[Path], step: int) -> None:
        """Predictions, ``<domain>/<image>.png``, of a run that has ended and closed its tracker."""
        from PIL import Image
        from torch.utils.tensorboard import SummaryWriter

        with SummaryWriter(self._save_dir) as writer:
            for path in paths:
                pixels = np.asarray(Image.open(path).convert("RGB"))
                writer.add_image(f"{path.parent.name}/{path.stem}", pixels, step, dataformats="HWC")


@VISBACKENDS.register_module(name="WandbVisBackend")
class WandbTracker(Tracker, WandbVisBackend):
    """A run of Weights & Biases; offline unless ``init_kwargs.mode`` or ``WANDB_MODE`` is set.

    Args:
        init_kwargs: of ``wandb.init``; ``project`` is ``"fedseg"`` by default, and ``id`` is kept
            in the work dir, so that a resumed run finds it.
        log_code_name: collect the source files below the current folder under this name.
        save_dir, define_metric_cfg, commit, watch_kwargs: as MMEngine's.
    """

    package = "wandb"  # makes a folder of this name

    def start(self, config: Mapping[str, Any]) -> int:
        folder = self.work_dir / "wandb"
        id_file = folder / "run_id"
        defaults = {
            "project": "fedseg",
            "name": self.run_name,
            "mode": os.environ.get("WANDB_MODE", "offline"),
            "resume": "allow",
            "id": id_file.read_text().strip() if id_file.is_file() else uuid4().hex[:8],
        }
        options = self._init_kwargs = {**defaults, **(self._init_kwargs or {})}
        places = {f"WANDB_{n.upper()}_DIR": str(folder / n) for n in ("cache", "config", "data")}
        places["WANDB_ERROR_REPORTING"] = "false"
        with mock.patch.dict(os.environ, {**places, **os.environ}):
            import wandb

            quiet = {"silent": True} if options["mode"] == "offline" else {}
            settings = wandb.Settings(console="off", disable_git=True, save_code=False, **quiet)
            options.setdefault("settings", settings)
            self._init_env()
        self._env_initialized = True
        write_text(id_file, options["id"] + "\n")
        wandb.config.update(config, allow_val_change=True)
        if self._log_code_name is not None:
            wandb.run.log_code(name=self._log_code_name)
        return max(0, wandb.run.step - 1)

    def add_image(self, name: str, image: np.ndarray, step: int = 0, **kwargs: Any) -> None:
        self._wandb.log({name: self._wandb.Image(image)}, step=step)

    def add_scalars(self, scalars: Mapping[str, float], step: int = 0, *_: Any, **__: Any) -> None:
        self._wandb.log(dict(scalars), step=step)

    def close(self) -> None:
        if hasattr(self, "_wandb"):
            self._wandb.finish(exit_code=0 if self.finished else 1)


@VISBACKENDS.register_module(name="MLflowVisBackend")
class MLflowTracker(Tracker, MLflowVisBackend):
    """A run of MLflow, in a database of the work dir unless a server is named.

    MLflow's client is used, not its functions: they keep one run and one server for the process.

    Args:
        exp_name: of the experiment; ``"fedseg"`` by default.
        artifact_suffix: has no effect; the files stay in the work dir and are not copied.
        save_dir, run_name, tags, params, tracking_uri, tracked_config_keys, artifact_location: as
            MMEngine's; ``MLFLOW_TRACKING_URI`` names a server too.
    """

    package = folder = "mlflow"

    def start(self, config: Mapping[str, Any]) -> int:
        with mock.patch.dict(os.environ, {"MLFLOW_DISABLE_TELEMETRY": "true", **os.environ}):
            from mlflow import MlflowClient
            from mlflow.entities import Param
            from mlflow.exceptions import MlflowException

            logging.getLogger("mlflow").setLevel(logging.WARNING)
            uri = self._tracking_uri or os.environ.get("MLFLOW_TRACKING_URI")
            if not uri:
                folder = Path(self._save_dir)
                folder.mkdir(parents=True, exist_ok=True)
                uri = f"sqlite:///{folder / 'mlflow.db'}"
                self._artifact_location = self._artifact_location or (folder / "artifacts").as_uri()
            client = self._mlflow = MlflowClient(tracking_uri=uri, registry_uri=uri)
            id_file = self.work_dir / "mlflow" / "run_id"
            try:
                self._run = id_file.read_text().strip()
                client.update_run(self._run, status="RUNNING")
            except (FileNotFoundError, MlflowException):  # a new run, or not in this store
                self._run = self._new_run()
        self._env_initialized = True
        write_text(id_file, self._run + "\n")
        keys = config if self._tracked_config_keys is None else self._tracked_config_keys
        fields = self._flatten({key: config[key] for key in keys if key in config})
        logged = client.get_run(self._run).data.params  # these stay what they were
        new = {k: v for k, v in {**fields, **(self._params or {})}.items() if k not in logged}
        client.log_batch(self._run, params=[Param(k, str(v)) for k, v in new.items()])
        history = client.get_metric_history(self._run, "train/lr")
        return max((metric.step for metric in history), default=0)

    def _new_run(self) -> str:
        name = self._exp_name or "fedseg"
        experiment = self._mlflow.get_experiment_by_name(name)
        number = experiment and experiment.experiment_id
        number = number or self._mlflow.create_experiment(name, self._artifact_location)
        run_name = self._run_name or self.run_name
        return self._mlflow.create_run(number, run_name=run_name, tags=self._tags).info.run_id

    def add_image(self, name: str, image: np.ndarray, step: int = 0, **kwargs: Any) -> None:
        self._mlflow.log_image(self._run, image, key=name, step=step)

    def add_scalars(self, scalars: Mapping[str, float], step: int = 0, *_: Any, **__: Any) -> None:
        from mlflow.entities import Metric

        when = round(1000 * time.time())
        metrics = [Metric(name, float(value), when, step) for name, value in scalars.items()]
        self._mlflow.log_batch(self._run, metrics=metrics)

    def close(self) -> None:
        if hasattr(self, "_run"):
            self._mlflow.set_terminated(self._run, "FINISHED" if self.finished else "KILLED")
