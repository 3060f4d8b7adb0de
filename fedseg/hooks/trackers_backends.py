"""TensorBoard, Weights & Biases and MLflow, each as MMEngine's backend of the same name.

What differs from MMEngine's own: the step is the round, a resumed run goes on in the same curves,
nothing is written outside the run's folder or sent anywhere unless it is asked for, and no source
files of the folder around are collected.
"""

import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from mmengine.config import Config
from mmengine.visualization import BaseVisBackend, TensorboardVisBackend, WandbVisBackend
from mmengine.visualization.vis_backend import force_init_env

from fedseg.registry import VISBACKENDS

FLUSH_SECONDS = 10.0
PARAMS_AT_ONCE = 100  # of MLflow's requests
PARAM_LENGTH = 500


class Tracker(BaseVisBackend):
    """Base of the three.

    Attributes:
        package: what must be installed.
        folder: where it writes in the work dir, unless ``save_dir`` says otherwise.
        finished: whether the run is over, or only stopped, when the tracker is closed.
    """

    package = ""
    folder = ""
    finished = False

    def belong_to(self, run: str, work_dir: Path) -> None:
        """Tell the run's name and its work dir (absolute)."""
        self.run_name, self.work_dir = run, work_dir

    def last_round(self) -> int:
        """The newest round that it has; 0: none."""
        raise NotImplementedError

    def now(self) -> float:
        """Wall time, in seconds since 1970."""
        return time.time()


@VISBACKENDS.register_module(name="TensorboardVisBackend")
class TensorBoardTracker(Tracker, TensorboardVisBackend):
    """Event files in ``tensorboard``, written anew when a run is resumed.

    Args:
        save_dir: another folder. One that is not in the work dir may be other runs' too: there
            earlier files stay, and TensorBoard itself drops their points of the same rounds.
    """

    package = "tensorboard"
    folder = "tensorboard"

    def _init_env(self) -> None:
        from torch.utils.tensorboard import SummaryWriter

        folder = Path(self._save_dir)
        if folder.absolute() == self.work_dir / self.folder:
            for stale in folder.glob("events.out.tfevents.*"):
                stale.unlink()
        # a TensorBoard that is watching forgets what it has read from step 0 on
        self._tensorboard = SummaryWriter(str(folder), purge_step=0, flush_secs=FLUSH_SECONDS)

    @force_init_env
    def last_round(self) -> int:
        return 0

    @force_init_env
    def add_config(self, config: Config, **kwargs: Any) -> None:
        """Nothing: the config is a file of the work dir."""

    @force_init_env
    def add_scalars(
        self,
        scalar_dict: Mapping[str, float],
        step: int = 0,
        file_path: str | None = None,
        *,
        wall_time: float | None = None,
        **kwargs: Any,
    ) -> None:
        """All scalars of a round as one event, which is many times cheaper than one each."""
        from torch.utils.tensorboard.summary import Summary

        values = [Summary.Value(tag=n, simple_value=v) for n, v in scalar_dict.items()]
        self._tensorboard.file_writer.add_summary(Summary(value=values), step, wall_time)


@VISBACKENDS.register_module(name="WandbVisBackend")
class WandbTracker(Tracker, WandbVisBackend):
    """A run of Weights & Biases; offline unless ``init_kwargs.mode`` or ``WANDB_MODE`` says else.

    Args:
        init_kwargs: of ``wandb.init``. Its ``project`` is ``"fedseg"`` by default, and its ``id``
            one that resuming finds again.
        log_code_name: collect the source files below the current folder under this name.
        save_dir, define_metric_cfg, commit, watch_kwargs: as MMEngine's.
    """

    package = "wandb"

    def _init_env(self) -> None:
        mode = os.environ.get("WANDB_MODE", "offline")
        own = {"project": "fedseg", "name": self.run_name, "mode": mode, "resume": "allow"}
        self._init_kwargs = {**own, **(self._init_kwargs or {})}
        scratch = self.work_dir / "wandb"
        scratch.mkdir(parents=True, exist_ok=True)
        quiet = {"silent": self._init_kwargs["mode"] == "offline"}
        with _environment(
            WANDB_CACHE_DIR=scratch / "cache",
            WANDB_CONFIG_DIR=scratch / "config",
            WANDB_DATA_DIR=scratch / "data",
            WANDB_ERROR_REPORTING="false",
        ):
            import wandb

            settings = wandb.Settings(console="off", disable_git=True, save_code=False, **quiet)
            self._init_kwargs.setdefault("settings", settings)
            file = scratch / "run_id"
            known = file.is_file()
            own = file.read_text(encoding="utf-8").strip() if known else uuid4().hex[:8]
            self._init_kwargs.setdefault("id", own)
            super()._init_env()
        file.write_text(self._init_kwargs["id"] + "\n", encoding="utf-8")

    @force_init_env
    def last_round(self) -> int:
        return max(0, self._wandb.run.step - 1)

    @force_init_env
    def add_config(self, config: Config, **kwargs: Any) -> None:
        self._wandb.config.update(_plain_config(config), allow_val_change=True)
        if self._log_code_name is not None:
            self._wandb.run.log_code(name=self._log_code_name)

    @force_init_env
    def add_image(self, name: str, image: np.ndarray, step: int = 0, **kwargs: Any) -> None:
        self._wandb.log({name: self._wandb.Image(image)}, step=step)

    @force_init_env
    def add_scalar(self, name: str, value: float, step: int = 0, **kwargs: Any) -> None:
        self._wandb.log({name: value}, step=step)

    @force_init_env
    def add_scalars(
        self,
        scalar_dict: Mapping[str, float],
        step: int = 0,
        file_path: str | None = None,
        *,
        wall_time: float | None = None,
        **kwargs: Any,
    ) -> None:
        when = {} if wall_time is None else {"_timestamp": wall_time}
        self._wandb.log({**scalar_dict, **when}, step=step)

    def close(self) -> None:
        if hasattr(self, "_wandb"):
            self._wandb.finish(exit_code=0 if self.finished else 1)


@VISBACKENDS.register_module(name="MLflowVisBackend")
class MLflowTracker(Tracker):
    """A run of MLflow, in a database of the work dir unless a server is named.

    Args:
        save_dir: folder of the database ``mlflow.db`` and of ``artifacts``.
        exp_name: of the experiment.
        run_name: default: the run's name.
        tags: of the run. params: beside those of the config.
        tracking_uri: a server or another store; default ``MLFLOW_TRACKING_URI``, else the database.
        tracked_config_keys: top-level keys of the config that become parameters; None: all.
        artifact_location: of the experiment, if it is new.
    """

    package = "mlflow"
    folder = "mlflow"

    def __init__(
        self,
        save_dir: str,
        exp_name: str = "fedseg",
        run_name: str | None = None,
        tags: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        tracking_uri: str | None = None,
        tracked_config_keys: list[str] | None = None,
        artifact_location: str | None = None,
    ) -> None:
        super().__init__(save_dir)
        self._experiment_name, self._name = exp_name, run_name
        self._tags, self._params = dict(tags or {}), dict(params or {})
        self._uri, self._artifacts = tracking_uri, artifact_location
        self._config_keys = tracked_config_keys

    def _init_env(self) -> None:
        with _environment(MLFLOW_DISABLE_TELEMETRY="true"):
            from mlflow.tracking import MlflowClient

            logging.getLogger("mlflow").setLevel(logging.WARNING)
            uri = self._uri or os.environ.get("MLFLOW_TRACKING_URI")
            if not uri:
                folder = Path(self._save_dir).absolute()
                folder.mkdir(parents=True, exist_ok=True)
                uri = f"sqlite:///{folder / 'mlflow.db'}"
                self._artifacts = self._artifacts or (folder / "artifacts").as_uri()
            self._client = MlflowClient(tracking_uri=uri, registry_uri=uri)
            self._run = self._find_run() or self._new_run()

    def _find_run(self) -> str | None:
        """The run that a resumed one goes on with, if the store still has it."""
        from mlflow.exceptions import MlflowException

        self._id_file = self.work_dir / "mlflow" / "run_id"
        if not self._id_file.is_file():
            return None
        run = self._id_file.read_text(encoding="utf-8").strip()
        try:
            self._client.update_run(run, status="RUNNING")
        except MlflowException:
            return None
        return run

    def _new_run(self) -> str:
        experiment = self._client.get_experiment_by_name(self._experiment_name)
        number = (
            self._client.create_experiment(self._experiment_name, self._artifacts)
            if experiment is None
            else experiment.experiment_id
        )
        name = self._name or self.run_name
        run = self._client.create_run(number, run_name=name, tags=self._tags).info.run_id
        self._id_file.parent.mkdir(parents=True, exist_ok=True)
        self._id_file.write_text(run + "\n", encoding="utf-8")
        return run

    @property
    @force_init_env
    def experiment(self) -> Any:
        """The ``mlflow.MlflowClient``."""
        return self._client

    @force_init_env
    def last_round(self) -> int:
        history = self._client.get_metric_history(self._run, "train/lr")
        return max((metric.step for metric in history), default=0)

    @force_init_env
    def add_config(self, config: Config, **kwargs: Any) -> None:
        """The config's fields as parameters; those of a resumed run stay what they were."""
        from mlflow.entities import Param

        content = _plain_config(config)
        if self._config_keys is not None:
            content = {key: content[key] for key in self._config_keys if key in content}
        wanted = {**_flatten(content), **self._params}
        there = self._client.get_run(self._run).data.params
        new = [Param(k, str(v)[:PARAM_LENGTH]) for k, v in wanted.items() if k not in there]
        for start in range(0, len(new), PARAMS_AT_ONCE):
            self._client.log_batch(self._run, params=new[start : start + PARAMS_AT_ONCE])

    @force_init_env
    def add_image(self, name: str, image: np.ndarray, step: int = 0, **kwargs: Any) -> None:
        self._client.log_image(self._run, image, key=name, step=step)

    @force_init_env
    def add_scalar(self, name: str, value: float, step: int = 0, **kwargs: Any) -> None:
        self._client.log_metric(self._run, name, float(value), step=step)

    @force_init_env
    def add_scalars(
        self,
        scalar_dict: Mapping[str, float],
        step: int = 0,
        file_path: str | None = None,
        *,
        wall_time: float | None = None,
        **kwargs: Any,
    ) -> None:
        from mlflow.entities import Metric

        when = round(1000 * (self.now() if wall_time is None else wall_time))
        metrics = [Metric(name, float(value), when, step) for name, value in scalar_dict.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def close(self) -> None:
        if hasattr(self, "_run"):
            self._client.set_terminated(self._run, "FINISHED" if self.finished else "KILLED")


@contextmanager
def _environment(**defaults: str | Path) -> Iterator[None]:
    """Environment variables for the start of a tracker, where the user has not set them."""
    own = [name for name in defaults if name not in os.environ]
    os.environ.update({name: str(defaults[name]) for name in own})
    try:
        yield
    finally:
        for name in own:
            os.environ.pop(name, None)


def _plain_config(config: Config) -> dict[str, Any]:
    return json.loads(json.dumps(config.to_dict(), default=str))


def _flatten(content: Any, name: str = "") -> dict[str, Any]:
    """Fields by their path: ``optim_wrapper.optimizer.lr``, ``custom_hooks.0.type``."""
    if isinstance(content, Mapping):
        pairs = content.items()
    elif isinstance(content, list) and any(isinstance(v, Mapping | list) for v in content):
        pairs = enumerate(content)
    else:
        return {name: content}
    fields: dict[str, Any] = {}
    for key, value in pairs:
        fields |= _flatten(value, f"{name}.{key}" if name else str(key))
    return fields
