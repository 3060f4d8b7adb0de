"""Trackers: the numbers of every round in TensorBoard, Weights & Biases, MLflow and the like.

They are MMEngine's visualization backends, chosen by ``visualizer.vis_backends``; they write to
``vis_data`` in the work dir, and the step is the round. Those of Weights & Biases and MLflow have
the run's name and tags, and go on with the same tracked run when a run is resumed.
"""

# before what imports MMEngine's optimizers itself
import fedseg.mmengine_optim  # noqa: F401, isort: skip

import json
import math
import os
import urllib.request
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from mmengine import Config
from mmengine.visualization import BaseVisBackend, Visualizer

from fedseg.core.hook import FederatedHook
from fedseg.errors import ConfigError
from fedseg.files import own_path, read_json, write_text
from fedseg.registry import HOOKS, VISBACKENDS, build, check_component
from fedseg.runs.config import config_json

DEFAULT = {"vis_backends": [{"type": "TensorboardVisBackend"}]}
FOLDER = "vis_data"  # of what trackers write, in the work dir
TRACKED = f"{FOLDER}/tracked.json"  # ids of the tracked runs by tracker
PROJECT = "fedseg"  # of Weights & Biases; the experiment of MLflow
LONGEST_TAG = 64  # characters, of Weights & Biases
WANDB_SERVER = "https://api.wandb.ai"
WANDB_TIMEOUT = 5  # seconds to reach the server


def check_backends(visualizer: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """The configs of the backends of a config's ``visualizer``; nothing is built.

    Raises:
        ConfigError: a backend is unknown, has a wrong argument, or is named twice.
    """
    options = DEFAULT if visualizer is None else visualizer
    backends = list(options.get("vis_backends", ()))
    types = []
    for number, backend in enumerate(backends):
        field = f"visualizer.vis_backends[{number}]"
        check_component(VISBACKENDS, backend, field, ("save_dir",), base=BaseVisBackend)
        if backend["type"] in types:
            raise ConfigError(f"visualizer.vis_backends: must differ in type: {backend['type']}")
        types.append(backend["type"])
    return backends


# ---------------------------------------------------------------- the run that is tracked


@dataclass(frozen=True)
class TrackedRun:
    """What trackers are told of a run."""

    experiment: str
    name: str
    tags: Mapping[str, str]  # setting, methods (with spaces between them), seed
    ids: Mapping[str, str]  # of the tracked runs that go on, by tracker; empty for a new run

    @classmethod
    def of(cls, runner: Any) -> "TrackedRun":
        """The tracked run of a runner whose checkpoint is restored, if it is resumed."""
        folder = Path(runner.work_dir)
        seed = f"seed{runner.seed}"
        # the runs of a grid have one experiment, and folders of their own
        experiment = folder.parent.name if folder.name == seed else runner.name
        config = runner.cfg
        tags = {"seed": str(runner.seed)}
        if config.get("setting"):
            tags["setting"] = config.setting
        if config.get("methods"):
            tags["methods"] = " ".join(config.methods)
        return cls(
            experiment=runner.name,
            name=f"{experiment} {seed}",
            tags=tags,
            ids=_read_ids(folder) if runner.round > 0 else {},
        )

    @property
    def labels(self) -> list[str]:
        """The tags as single words: the setting, each method, ``seed0``."""
        words = [self.tags.get("setting", ""), *self.tags.get("methods", "").split()]
        words.append(f"seed{self.tags['seed']}")
        return [word[:LONGEST_TAG] for word in words if word]


def _read_ids(work_dir: Path) -> dict[str, str]:
    """The ids that a run has noted; none if it has no file of them."""
    file = own_path(work_dir, TRACKED)
    if not file.is_file():
        return {}
    content = read_json(file, "remove it to track the run as a new one")
    return {str(tracker): str(value) for tracker, value in dict(content).items()}


def _wandb_options(given: Mapping[str, Any], run: TrackedRun) -> dict[str, Any]:
    """Options of ``WandbVisBackend``, as given or by the run."""
    start = {
        "project": PROJECT,
        "group": run.experiment,
        "name": run.name,
        "tags": run.labels,
        "id": run.ids.get("wandb") or uuid.uuid4().hex[:8],
        "resume": "allow",
        "allow_val_change": True,  # of the config: a resumed run may have more rounds
        **(given.get("init_kwargs") or {}),
    }
    if "mode" not in start and "WANDB_MODE" not in os.environ and not _reaches_wandb():
        start["mode"] = "offline"
    by_round = [{"name": "*", "step_metric": "train/round"}]
    return {"define_metric_cfg": by_round, **given, "init_kwargs": start}


def _reaches_wandb() -> bool:
    """True if the server of Weights & Biases answers, whatever it says."""
    address = os.environ.get("WANDB_BASE_URL", WANDB_SERVER)
    try:
        urllib.request.urlopen(address, timeout=WANDB_TIMEOUT).close()
    except HTTPError:
        return True
    except OSError:
        return False
    return True


def _mlflow_options(given: Mapping[str, Any], run: TrackedRun) -> dict[str, Any]:
    """Options of ``MLflowVisBackend``, as given or by the run; a tracked run is opened again."""
    import mlflow

    options = {
        "exp_name": PROJECT,
        "run_name": run.name,
        "tags": dict(run.tags),
        "tracking_uri": mlflow.get_tracking_uri(),  # else MMEngine has one that MLflow 3 refuses
        **given,
    }
    if "mlflow" in run.ids:
        mlflow.set_tracking_uri(options["tracking_uri"])
        mlflow.set_experiment(options["exp_name"])
        mlflow.start_run(run_id=run.ids["mlflow"])
        options["tracked_config_keys"] = ()  # MLflow refuses to change them
    return options


OPTIONS = {"WandbVisBackend": _wandb_options, "MLflowVisBackend": _mlflow_options}


def start_trackers(
    backends: Sequence[Mapping[str, Any]], name: str, work_dir: str, run: TrackedRun
) -> Visualizer:
    """The visualizer of checked backends, which start when they are first used.

    Args:
        name: of the visualizer, in MMEngine's registry of instances.
    """
    built = []
    for number, backend in enumerate(backends):
        options = dict(backend)
        if backend["type"] in OPTIONS:
            options = OPTIONS[backend["type"]](options, run)
        field = f"visualizer.vis_backends[{number}]"
        folder = str(Path(work_dir) / FOLDER)
        built.append(build(VISBACKENDS, options, field, base=BaseVisBackend, save_dir=folder))
    return Visualizer.get_instance(name, vis_backends=built)


def tracked_ids(backends: Sequence[Mapping[str, Any]], visualizer: Visualizer) -> dict[str, str]:
    """The ids of the tracked runs of started backends, by tracker."""
    types = [backend["type"] for backend in backends]
    ids = {}
    if "WandbVisBackend" in types:
        ids["wandb"] = visualizer.get_backend("WandbVisBackend").experiment.run.id
    if "MLflowVisBackend" in types:
        run = visualizer.get_backend("MLflowVisBackend").experiment.active_run()
        ids["mlflow"] = run.info.run_id
    return ids


# ---------------------------------------------------------------- what is tracked


def scalars(record: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers of a line of the history, by the names that trackers show.

    Metrics by their own name, ``<domain>/<metric>``; ``seconds/...``; ``norm/...``;
    ``traffic/bytes_down`` and ``traffic/bytes_up``; everything else, such as what an algorithm or a
    hook adds, as ``train/...``. ``train/rejected`` counts updates.
    """
    values = dict(record.get("metrics") or {})
    for phase, seconds in (record.get("seconds") or {}).items():
        values[f"seconds/{phase}"] = seconds
    for key, value in record.items():
        values[_name(key)] = value
    values["train/rejected"] = len(record.get("rejected") or [])
    return _finite(values)


def _finite(values: Mapping[str, Any]) -> dict[str, float]:
    """The values that are finite numbers."""
    numbers = {}
    for name, value in values.items():
        if hasattr(value, "tolist"):  # of NumPy or torch
            value = value.tolist()
        if isinstance(value, int | float) and math.isfinite(value):
            numbers[name] = value
    return numbers


def _name(key: str) -> str:
    """What trackers call a key of the history."""
    if key.startswith("norm_"):
        return key.replace("norm_", "norm/", 1)
    if key.startswith("bytes_"):
        return f"traffic/{key}"
    return f"train/{key}"


@HOOKS.register_module()
class TrackersHook(FederatedHook):
    """Starts the trackers with training, gives them every round, and closes them.

    A tracker that cannot start is an error before the first round. If one fails later, a warning
    says so, the trackers get no more rounds, and the run continues.
    """

    def before_train(self, runner: Any) -> None:
        self._record = runner.train_loop.pending  # of a run that resumes with an evaluation
        self._failed = False
        config = json.loads(config_json(runner.cfg.to_dict()))  # a module, for example, as text
        config["experiment_name"] = runner.name
        backends = check_backends(runner.cfg.get("visualizer"))
        run = TrackedRun.of(runner)
        try:
            name = f"{runner.experiment_name}_trackers"
            runner.visualizer = start_trackers(backends, name, runner.work_dir, run)
            runner.visualizer.add_config(Config(config))
            ids = tracked_ids(backends, runner.visualizer)
        except Exception as error:  # whatever a tracker's package raises
            again = f", or remove {TRACKED} to track the run as a new one" if run.ids else ""
            raise ConfigError(
                f"visualizer: a tracker cannot start ({type(error).__name__}: {error}); correct "
                f"its options, or leave it out of vis_backends{again}"
            ) from error
        if ids:
            write_text(own_path(Path(runner.work_dir), TRACKED), json.dumps(ids))

    def after_round(self, runner: Any, record: dict[str, Any]) -> None:
        self._record = record  # an evaluation adds its metrics to it

    def after_train_epoch(self, runner: Any) -> None:
        if self._failed:
            return
        record = self._record
        try:
            if record.get("initial_metrics"):
                runner.visualizer.add_scalars(_finite(record["initial_metrics"]), step=0)
            runner.visualizer.add_scalars(scalars(record), step=record["round"])
        except Exception as error:  # whatever a tracker's package raises
            self._failed = True
            runner.logger.warning(f"visualizer: failed, trackers get no more rounds: {error!r}")

    def after_stop(self, runner: Any) -> None:
        try:
            runner.visualizer.close()
        except Exception as error:  # whatever a tracker's package raises
            runner.logger.warning(f"visualizer: not closed: {error!r}")
