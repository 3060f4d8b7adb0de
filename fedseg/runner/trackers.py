"""Trackers: the numbers of every round in TensorBoard, Weights & Biases, MLflow and the like.

They are MMEngine's visualization backends, chosen by ``visualizer.vis_backends`` and used as they
are: they write to ``vis_data`` in the work dir. The step is the round.
"""

# before what imports MMEngine's optimizers itself
import fedseg.mmengine_optim  # noqa: F401, isort: skip

import json
import math
from collections.abc import Mapping
from typing import Any

from mmengine import Config
from mmengine.visualization import BaseVisBackend, Visualizer

from fedseg.core.hook import FederatedHook
from fedseg.errors import ConfigError
from fedseg.registry import HOOKS, VISBACKENDS, build
from fedseg.runs.config import config_json

DEFAULT = {"vis_backends": [{"type": "TensorboardVisBackend"}]}


class RunVisualizer(Visualizer):
    """MMEngine's visualizer, whose backends start with training, not with a plan or a test."""

    def add_config(self, config: Config, **kwargs: Any) -> None:
        """Do nothing: MMEngine calls it whenever a runner is built."""

    def start(self, config: Config) -> None:
        """Start the backends: give them the config."""
        super().add_config(config)


def build_visualizer(config: Mapping[str, Any] | None, name: str, work_dir: str) -> RunVisualizer:
    """The visualizer with the backends of a config's ``visualizer``; none is started.

    Raises:
        ConfigError: a backend is unknown, has a wrong argument, or is named twice.
    """
    options = DEFAULT if config is None else config
    backends = []
    for number, backend in enumerate(options.get("vis_backends", ())):
        field = f"visualizer.vis_backends[{number}]"
        folder = f"{work_dir}/vis_data"
        backends.append(build(VISBACKENDS, backend, field, base=BaseVisBackend, save_dir=folder))
    try:
        return RunVisualizer.get_instance(name, vis_backends=backends)
    except RuntimeError as error:
        raise ConfigError(f"visualizer.vis_backends: must differ in type: {error}") from error


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
        try:
            runner.visualizer.start(Config(config))
        except Exception as error:  # whatever a tracker's package raises
            raise ConfigError(
                f"visualizer: a tracker cannot start ({type(error).__name__}: {error}); correct "
                "its options, or leave it out of vis_backends"
            ) from error

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
