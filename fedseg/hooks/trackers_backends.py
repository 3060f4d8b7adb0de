"""TensorBoard, Weights & Biases and MLflow: MMEngine's backends, adapted to rounds and resuming.

What differs from MMEngine's own: the step is the round, a resumed run continues its curves, nothing
is written outside the work dir or sent anywhere unless the config or the tracker's own environment
variables ask for it, and no source files are collected.
"""

import json
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import numpy as np
from mmengine.config import Config
from mmengine.visualization import (
    BaseVisBackend,
    MLflowVisBackend,
    TensorboardVisBackend,
    WandbVisBackend,
)
from mmengine.visualization.vis_backend import force_init_env

from fedseg.files import write_text
from fedseg.registry import VISBACKENDS

HYPERPARAMETERS = (
    *("setting", "methods", "algorithm", "local_loss", "optim_wrapper", "averaging", "batchnorm"),
    *("client_sampler", "train_cfg", "randomness"),
)


class Tracker(BaseVisBackend):
    """Base of the three; :meth:`add_config` starts it.

    Attributes:
        package: what must be installed.
        folder: where it writes in the work dir, unless ``save_dir`` is set.
        run_name, work_dir: of the run; the path is absolute.
        finished: whether the run is complete when the tracker is closed.

    ``add_scalars`` takes besides MMEngine's arguments a ``wall_time``, in seconds since 1970.
    """

    package = folder = ""
    run_name: str
    work_dir: Path
    finished = False

    def last_round(self) -> int:
        """The newest round that it has; 0: none."""
        return 0

    def add_scalar(self, name: str, value: float, step: int = 0, **kwargs: Any) -> None:
        self.add_scalars({name: float(value)}, step)


@VISBACKENDS.register_module(name="TensorboardVisBackend")
class TensorBoardTracker(Tracker, TensorboardVisBackend):
    """Event files in ``tensorboard``, rewritten when a run is resumed.

    Besides scalars: the config as text, its plain values as hyper-parameters with the metrics that
    were evaluated, and predictions as images.

    Args:
        save_dir: another folder. Other runs may share one outside the work dir, so earlier files
            stay there, and TensorBoard itself drops their points of the same rounds.
    """

    package = folder = "tensorboard"
    hyperparameters: Mapping[str, Any] = MappingProxyType({})
    metrics: frozenset[str] = frozenset()

    def _init_env(self) -> None:
        from torch.utils.tensorboard import SummaryWriter

        folder = Path(self._save_dir).absolute()
        if folder == self.work_dir / self.folder:
            for stale in folder.glob("events.out.tfevents.*"):
                stale.unlink()
        # a TensorBoard that is watching forgets what it has read from step 0 on
        self._tensorboard = SummaryWriter(str(folder), purge_step=0, flush_secs=10)

    @force_init_env
    def add_config(self, config: Config, **kwargs: Any) -> None:
        """The config as text; its values are the hyper-parameters that :meth:`close` writes."""
        content = _plain(config)
        lines = json.dumps(content, indent=1).splitlines()
        self._tensorboard.add_text("config", "".join(f"    {line}\n" for line in lines))  # as code
        chosen = {key: content[key] for key in HYPERPARAMETERS if content.get(key)}
        self.hyperparameters = _flat(chosen)

    def add_scalars(self, scalars: Any, step: int = 0, *_: Any, wall_time: Any = None) -> None:
        """All scalars of a round as one event, which is many times cheaper than one each."""
        from torch.utils.tensorboard.summary import Summary

        groups = ("train/", "seconds/", "norm/", "traffic/")
        self.metrics |= {name for name in scalars if not name.startswith(groups)}
        values = [Summary.Value(tag=n, simple_value=v) for n, v in scalars.items()]
        self._tensorboard.file_writer.add_summary(Summary(value=values), step, wall_time)

    def close(self) -> None:
        if hasattr(self, "_tensorboard") and self.hyperparameters:
            from torch.utils.tensorboard.summary import hparams

            for part in hparams(dict(self.hyperparameters), dict.fromkeys(self.metrics, 0.0)):
                self._tensorboard.file_writer.add_summary(part)
        super().close()

    def add_pictures(self, paths: Iterable[Path], step: int) -> None:
        """Predictions, ``<domain>/<image>.png``, of a run that has ended and closed its tracker."""
        from PIL import Image
        from torch.utils.tensorboard import SummaryWriter

        with SummaryWriter(str(Path(self._save_dir).absolute())) as writer:
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

    def _init_env(self) -> None:
        folder = self.work_dir / "wandb"
        id_file = folder / "run_id"
        own = {
            "project": "fedseg",
            "name": self.run_name,
            "mode": os.environ.get("WANDB_MODE", "offline"),
            "resume": "allow",
            "id": id_file.read_text().strip() if id_file.is_file() else uuid4().hex[:8],
        }
        options = self._init_kwargs = {**own, **(self._init_kwargs or {})}
        with _environment(
            WANDB_CACHE_DIR=folder / "cache",
            WANDB_CONFIG_DIR=folder / "config",
            WANDB_DATA_DIR=folder / "data",
            WANDB_ERROR_REPORTING="false",
        ):
            import wandb

            quiet = {"silent": True} if options["mode"] == "offline" else {}
            settings = wandb.Settings(console="off", disable_git=True, save_code=False, **quiet)
            options.setdefault("settings", settings)
            super()._init_env()
        write_text(id_file, options["id"] + "\n")

    def last_round(self) -> int:
        return max(0, self._wandb.run.step - 1)

    @force_init_env
    def add_config(self, config: Config, **kwargs: Any) -> None:
        self._wandb.config.update(_plain(config), allow_val_change=True)
        if self._log_code_name is not None:
            self._wandb.run.log_code(name=self._log_code_name)

    def add_image(self, name: str, image: np.ndarray, step: int = 0, **kwargs: Any) -> None:
        self._wandb.log({name: self._wandb.Image(image)}, step=step)

    def add_scalars(self, scalars: Any, step: int = 0, *_: Any, wall_time: Any = None) -> None:
        when = {} if wall_time is None else {"_timestamp": wall_time}
        self._wandb.log({**scalars, **when}, step=step)

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

    def _init_env(self) -> None:
        with _environment(MLFLOW_DISABLE_TELEMETRY="true"):
            from mlflow import MlflowClient
            from mlflow.exceptions import MlflowException

            logging.getLogger("mlflow").setLevel(logging.WARNING)
            uri = self._tracking_uri or os.environ.get("MLFLOW_TRACKING_URI")
            if not uri:
                folder = Path(self._save_dir).absolute()
                folder.mkdir(parents=True, exist_ok=True)
                uri = f"sqlite:///{folder / 'mlflow.db'}"
                self._artifact_location = self._artifact_location or (folder / "artifacts").as_uri()
            self._mlflow = MlflowClient(tracking_uri=uri, registry_uri=uri)
            id_file = self.work_dir / "mlflow" / "run_id"
            try:
                self._run = id_file.read_text().strip()
                self._mlflow.update_run(self._run, status="RUNNING")
            except (FileNotFoundError, MlflowException):  # a new run, or not in this store
                self._run = self._new_run()
        write_text(id_file, self._run + "\n")

    def _new_run(self) -> str:
        name, run_name = self._exp_name or "fedseg", self._run_name or self.run_name
        found = self._mlflow.get_experiment_by_name(name)
        number = found and found.experiment_id
        number = number or self._mlflow.create_experiment(name, self._artifact_location)
        return self._mlflow.create_run(number, run_name=run_name, tags=self._tags).info.run_id

    def last_round(self) -> int:
        history = self._mlflow.get_metric_history(self._run, "train/lr")
        return max((metric.step for metric in history), default=0)

    @force_init_env
    def add_config(self, config: Config, **kwargs: Any) -> None:
        """The config's fields as parameters; those of a resumed run stay what they were."""
        from mlflow.entities import Param

        content = _plain(config)
        keys = content if self._tracked_config_keys is None else self._tracked_config_keys
        fields = self._flatten({key: content[key] for key in keys if key in content})
        there = self._mlflow.get_run(self._run).data.params
        new = {k: v for k, v in {**fields, **(self._params or {})}.items() if k not in there}
        self._mlflow.log_batch(self._run, params=[Param(k, str(v)) for k, v in new.items()])

    def add_image(self, name: str, image: np.ndarray, step: int = 0, **kwargs: Any) -> None:
        self._mlflow.log_image(self._run, image, key=name, step=step)

    def add_scalars(self, scalars: Any, step: int = 0, *_: Any, wall_time: Any = None) -> None:
        from mlflow.entities import Metric

        when = round(1000 * (time.time() if wall_time is None else wall_time))
        metrics = [Metric(name, float(value), when, step) for name, value in scalars.items()]
        self._mlflow.log_batch(self._run, metrics=metrics)

    def close(self) -> None:
        if hasattr(self, "_run"):
            self._mlflow.set_terminated(self._run, "FINISHED" if self.finished else "KILLED")


@contextmanager
def _environment(**defaults: str | Path) -> Iterator[None]:
    """Environment variables for the start of a tracker, where the user has not set them."""
    own = {name: str(value) for name, value in defaults.items() if name not in os.environ}
    os.environ.update(own)
    try:
        yield
    finally:
        for name in own:
            os.environ.pop(name, None)


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Numbers and text by dotted key; lists as text."""
    if isinstance(value, Mapping):
        return {k: v for key, one in value.items() for k, v in _flat(one, f"{name}.{key}").items()}
    plain = isinstance(value, bool | int | float | str)
    return {} if value is None else {name.lstrip("."): value if plain else str(value)}


def _plain(config: Config) -> dict[str, Any]:
    return json.loads(json.dumps(config.to_dict(), default=str))
