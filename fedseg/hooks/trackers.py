"""Trackers: the numbers of every round in TensorBoard, Weights & Biases, MLflow and the like.

They are MMEngine's visualization backends, chosen by ``visualizer.vis_backends``; TensorBoard is
the default. ``history.jsonl`` is the truth, and trackers show it: on resume they get the rounds
that they lack, so that no point is lost and none is there twice. Nothing that a run computes
depends on a tracker.
"""

import copy
import importlib.util
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mmengine.visualization import BaseVisBackend, Visualizer
from numpy import ndarray

from fedseg.config.schema import check_value
from fedseg.core.hook import FederatedHook
from fedseg.errors import ConfigError
from fedseg.hooks.trackers_backends import Tracker
from fedseg.registry import HOOKS, VISBACKENDS, VISUALIZERS, build

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
class LazyVisualizer(Visualizer):
    """MMEngine's, but its figure, for which matplotlib is imported, is made for the first image."""

    def _initialize_fig(self, fig_cfg: Mapping[str, Any]) -> tuple:
        return None, SimpleNamespace(get_dpi=lambda: None), None

    def set_image(self, image: ndarray) -> None:
        """Show an image, which all drawing starts with."""
        if self.ax_save is None:
            figure = super()._initialize_fig(self.fig_save_cfg)
            self.fig_save_canvas, self.fig_save, self.ax_save = figure
            self.dpi = self.fig_save.get_dpi()
        super().set_image(image)


def build_visualizer(config: Any, name: str) -> Visualizer:
    """The visualizer of a config, without its backends: they start with training."""
    options = {"type": "LazyVisualizer", **_options(config), "name": name, "vis_backends": []}
    return build(VISUALIZERS, options, "visualizer")


def build_trackers(config: Any, work_dir: str | Path, name: str) -> dict[str, BaseVisBackend]:
    """The backends of a config's ``visualizer``, by config field; none is started."""
    given = _options(config).get("vis_backends") or []
    given = [given] if isinstance(given, Mapping) else given
    check_value("visualizer.vis_backends", given, Sequence[Mapping])
    work_dir, trackers = Path(work_dir).absolute(), {}
    for number, options in enumerate(given):
        field = f"visualizer.vis_backends[{number}]"
        kind = options.get("type")
        cls = VISBACKENDS.get(kind) if isinstance(kind, str) else None
        folder = work_dir / getattr(cls, "folder", "vis_data")
        tracker = build(VISBACKENDS, options, field, base=BaseVisBackend, save_dir=str(folder))
        tracker.run_name, tracker.work_dir = name, work_dir
        trackers[field] = tracker
    return trackers


def _options(config: Any) -> Mapping[str, Any]:
    return DEFAULT if config is None else config


@HOOKS.register_module()
class TrackersHook(FederatedHook):
    """Starts the trackers with training, gives them every round, and closes them."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}  # field -> newest round that the tracker has
        self._record: dict[str, Any] | None = None

    def before_run(self, runner: Any) -> None:
        """Refuse a tracker that is not installed, before an earlier run is moved aside."""
        for field, tracker in runner.trackers.items():
            package = getattr(tracker, "package", None)
            if package is not None and importlib.util.find_spec(package) is None:
                raise ConfigError(
                    f"{field}: {package} is not installed; install the extra 'trackers', or leave "
                    "this tracker out"
                )

    def before_train(self, runner: Any) -> None:
        config = copy.deepcopy(runner.cfg)
        config["experiment_name"] = runner.name
        history = runner.history.read()
        for field, tracker in runner.trackers.items():
            self._last[field] = len(history)
            try:
                if isinstance(tracker, Tracker):
                    plain = json.loads(json.dumps(config.to_dict(), default=str))
                    self._last[field] = tracker.start(plain)
                else:  # it may have earlier rounds or not
                    tracker.add_config(config)
                for record in history:
                    self._add(field, tracker, record)
            except Exception as error:  # whatever a tracker's package raises
                raise ConfigError(
                    f"{field}: cannot start ({type(error).__name__}: {error}); correct its options,"
                    " or leave it out"
                ) from error
            runner.visualizer._vis_backends[field] = tracker

    def _add(self, field: str, tracker: BaseVisBackend, record: Mapping[str, Any]) -> None:
        if record["round"] > self._last[field]:
            tracker.add_scalars(scalars(record), step=record["round"])
            self._last[field] = record["round"]

    def after_round(self, runner: Any, record: dict[str, Any]) -> None:
        self._record = record  # an evaluation adds its metrics to it

    def after_train_epoch(self, runner: Any) -> None:
        # a run that was stopped between a round and its evaluation resumes with the latter
        record = self._record or runner.history.read()[-1]
        for field in list(self._last):
            try:
                self._add(field, runner.trackers[field], record)
            except Exception as error:  # a tracker is never worth a run
                runner.logger.warning(f"{field}: failed and is left out: {error!r}")
                self._drop(field, runner)

    def after_stop(self, runner: Any) -> None:
        for field in list(self._last):
            tracker = runner.trackers[field]
            tracker.finished = runner.train_loop.round == runner.max_rounds
            try:
                tracker.close()
            except Exception as error:
                runner.logger.warning(f"{field}: not closed: {error!r}")
            self._drop(field, runner)

    def _drop(self, field: str, runner: Any) -> None:
        del self._last[field]
        runner.visualizer._vis_backends.pop(field, None)
