"""Trackers: the numbers of every round in TensorBoard, Weights & Biases, MLflow and the like.

They are MMEngine's visualisation backends, chosen by ``visualizer.vis_backends``; TensorBoard is
the default. A tracker begins with training, writes into the work dir, and needs no network unless
the config or its own environment variables ask for it. Nothing that a run computes depends on one:
a tracker that fails on the way is left out with a warning.

``history.jsonl`` is the truth, trackers show it. When a run is resumed they are given the rounds
that they lack, so that a kill loses no point and none is there twice.
"""

import copy
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmengine.visualization import BaseVisBackend, Visualizer

from fedseg.core.hook import FederatedHook
from fedseg.errors import ConfigError
from fedseg.hooks.trackers_backends import Tracker
from fedseg.registry import HOOKS, VISBACKENDS, VISUALIZERS, build
from fedseg.runs.history import plain

if TYPE_CHECKING:
    from fedseg.runner.runner import FederatedRunner

DEFAULT = {"vis_backends": [{"type": "TensorboardVisBackend"}]}
GROUPS = {"norm_": "norm/", "bytes_": "traffic/bytes_"}


def scalars(record: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a line of the history, by the names that trackers show.

    ``train/loss``, ``train/lr``, ``train/rejected`` (updates); ``norm/...``; ``traffic/bytes_down``
    and ``traffic/bytes_up``; ``seconds/...``; figures by their own name, ``<domain>/<metric>``; and
    any number that an algorithm or a hook adds as ``train/...``. What is not finite is left out.
    """
    found: dict[str, Any] = {}
    for key, value in record.items():
        if key == "metrics":
            found |= value
        elif key == "seconds":
            found |= {f"seconds/{name}": taken for name, taken in value.items()}
        elif key == "rejected":
            found["train/rejected"] = len(value)
        elif key != "round" and not isinstance(value, list | Mapping | str):
            group = next((start for start in GROUPS if key.startswith(start)), "")
            found[GROUPS.get(group, "train/") + key.removeprefix(group)] = value
    return {name: v for name, v in plain(found).items() if isinstance(v, int | float)}


def build_visualizer(config: Any, name: str) -> Visualizer:
    """The visualiser of a config, without its backends: they begin with training.

    Args:
        config: the config's ``visualizer``. name: unique in this process.

    Raises:
        ConfigError: it is not a visualiser's config.
    """
    options = _checked(config)
    options = {"type": "Visualizer", **options, "name": name, "vis_backends": []}
    return build(VISUALIZERS, options, "visualizer")


def build_trackers(config: Any, work_dir: str | Path, name: str) -> dict[str, BaseVisBackend]:
    """The backends of a config's ``visualizer``, by the fields that they stand in; none is started.

    Args:
        config: the config's ``visualizer``; None: TensorBoard.
        work_dir: of the run. name: of the run.

    Raises:
        ConfigError: a backend, or an option of one, is unknown.
    """
    given = _checked(config).get("vis_backends") or []
    given = [given] if isinstance(given, Mapping) else given
    if not isinstance(given, list | tuple):
        raise ConfigError(f"visualizer.vis_backends: must be a list of dicts, not {given!r}")
    trackers = {}
    for number, options in enumerate(given):
        field = f"visualizer.vis_backends[{number}]"
        kind = options.get("type") if isinstance(options, Mapping) else None
        cls = VISBACKENDS.get(kind) if isinstance(kind, str) else None
        folder = Path(work_dir).absolute() / getattr(cls, "folder", "vis_data")
        tracker = build(VISBACKENDS, options, field, save_dir=str(folder))
        if not isinstance(tracker, BaseVisBackend):
            raise ConfigError(f"{field}.type: {type(tracker).__name__} is not a vis backend")
        if isinstance(tracker, Tracker):
            tracker.belong_to(name, Path(work_dir).absolute())
        trackers[field] = tracker
    return trackers


def require_packages(trackers: Mapping[str, BaseVisBackend]) -> None:
    """Look for the trackers' packages. Training needs them; testing a checkpoint does not.

    Raises:
        ConfigError: one is not installed.
    """
    for field, tracker in trackers.items():
        if isinstance(tracker, Tracker) and importlib.util.find_spec(tracker.package) is None:
            raise ConfigError(
                f"{field}: needs the package {tracker.package}, which is not installed: pip "
                "install -c constraints.txt -e '.[trackers]', or leave this tracker out"
            )


def _checked(config: Any) -> dict[str, Any]:
    config = DEFAULT if config is None else config
    if not isinstance(config, Mapping):
        raise ConfigError(
            "visualizer: must be a dict such as "
            f"dict(vis_backends=[dict(type='TensorboardVisBackend')]), not {config!r}"
        )
    return dict(config)


@HOOKS.register_module()
class TrackersHook(FederatedHook):
    """Starts the trackers with training, gives them every round, and closes them."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}  # field -> newest round that the tracker has
        self._record: dict[str, Any] | None = None

    def before_train(self, runner: "FederatedRunner") -> None:
        self._record = runner.train_loop.pending
        if not runner.trackers:
            return
        config = copy.deepcopy(runner.cfg)
        config["experiment_name"] = runner.name
        history = runner.history.read()
        for field, tracker in runner.trackers.items():
            self._last[field] = 0
            try:
                tracker.add_config(config)  # the first call starts a backend
                self._catch_up(field, tracker, history)
            except Exception as error:  # whatever a tracker's package raises
                raise ConfigError(
                    f"{field}: the tracker cannot start: {type(error).__name__}: {error}. Mend "
                    "its options, or leave it out"
                ) from error
            runner.visualizer._vis_backends[field] = tracker

    def _catch_up(self, field: str, tracker: BaseVisBackend, history: list[dict[str, Any]]) -> None:
        """Give a tracker the rounds before this process that it does not have."""
        if not isinstance(tracker, Tracker):  # it may have all of them, or some twice
            return
        self._last[field] = tracker.last_round()
        parts = ("train", "aggregate", "evaluate")
        taken = [record.get("seconds") or {} for record in history]
        lengths = [sum(seconds.get(part) or 0 for part in parts) for seconds in taken]
        ended = tracker.now() - sum(lengths)
        for record, length in zip(history, lengths, strict=True):
            ended += length
            self._add(field, tracker, record, wall_time=ended)

    def _add(
        self, field: str, tracker: BaseVisBackend, record: Mapping[str, Any], **when: float
    ) -> None:
        if record["round"] > self._last[field]:
            tracker.add_scalars(scalars(record), step=record["round"], **when)
            self._last[field] = record["round"]

    def after_round(self, runner: "FederatedRunner", record: dict[str, Any]) -> None:
        self._record = record  # its evaluation is added to it

    def after_train_epoch(self, runner: "FederatedRunner") -> None:
        for field in list(self._last):
            tracker = runner.trackers[field]
            try:
                self._add(field, tracker, self._record)
            except Exception as error:  # a tracker is never worth a run
                runner.logger.warning(
                    f"{field}: {type(tracker).__name__} failed and gets nothing more: {error!r}"
                )
                del self._last[field]
                runner.visualizer._vis_backends.pop(field, None)

    def after_stop(self, runner: "FederatedRunner") -> None:
        finished = runner.train_loop.round == runner.max_rounds
        for field in self._last:
            tracker = runner.trackers[field]
            try:
                if isinstance(tracker, Tracker):
                    tracker.finished = finished
                tracker.close()
            except Exception as error:
                runner.logger.warning(f"{field}: not closed: {error!r}")
            runner.visualizer._vis_backends.pop(field, None)
        self._last = {}
