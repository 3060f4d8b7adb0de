"""The suite from Python: what the commands do, with objects instead of exit codes.

    from fedseg import evaluate, prepare, train

    prepare("cifar10", root="data/shapes", synthetic=True)
    run = train("demo_shapes", methods=["fedavgm"], options={"data_root": "data/shapes"})
    print(run.metrics, evaluate(run).metrics)

A user's mistake is a :class:`fedseg.errors.UserError`.
"""

import copy
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config

from fedseg.config.components import TEST, TRAIN
from fedseg.config.compose import setting_file
from fedseg.config.layers import errors_name_their_source
from fedseg.data_prep import data_sets
from fedseg.errors import ConfigError, DataError
from fedseg.metric_names import flatten
from fedseg.names import did_you_mean
from fedseg.runner import experiment
from fedseg.runner.experiment import Options, load_config
from fedseg.runs.schema import FILE_NAME, Results, check_finished, read_results
from fedseg.trust import Trust, as_list, own_parts


def _flat(domains: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """``{"unseen": {"mIoU": x}}`` as ``{"unseen/mIoU": x}``, numbers only."""
    return {name: value for name, value in flatten(domains).items() if isinstance(value, float)}


def _refuse_methods(function: str, given: Config | str | Path, methods: Sequence[str]) -> None:
    if methods and (isinstance(given, Config) or Path(given).is_dir()):
        message = "methods cannot be added to a run or a loaded config: give a name instead"
        raise ConfigError(f"{function}: {message}")


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        folder: its work dir.
        results: the content of ``results.json``.
        history: a record of each round, as in ``history.jsonl``.
        trust: code of the run that is executed where its model is built.
    """

    folder: Path
    results: Results
    history: tuple[dict[str, Any], ...]
    trust: tuple[str, ...] = ()

    @property
    def metrics(self) -> dict[str, float]:
        """``<domain>/<metric>`` of the last evaluation, in percent."""
        return _flat(self.results.final)

    def predict(self, images: Sequence[Any], **options: Any) -> list[Any]:
        """The class map, int64 [H, W], or class, int64 [], of each image, in their order.

        Args:
            images: files, or arrays uint8 [H, W, 3] in RGB.
            options: ``batch_size``, and those of :func:`fedseg.inference.predictor.opened`, such as
                ``domain`` and ``device``.
        """
        from fedseg.inference.predictor import opened

        is_array = isinstance(images, np.ndarray)  # of one row it may hold paths
        is_single = is_array and images.ndim in (0, 2, 3) and images.shape[-1:] in ((), (3,))
        if is_single or isinstance(images, str | Path) or not isinstance(images, Iterable):
            raise ConfigError("images: must be a list of images, not a single one: give [image]")
        images = list(images)
        batch_size = options.pop("batch_size", None)
        with opened(self.folder, **{"trust": self.trust, **options}) as predictor:
            predictions = {p.index: p.classes for p in predictor.predict(images, batch_size)}
            if predictor.used_means:
                warnings.warn(predictor.statistics, stacklevel=2)
        return [predictions[index] for index in range(len(images))]


@dataclass(frozen=True)
class Evaluation:
    """A checkpoint evaluated on every test domain.

    Attributes:
        folder: where the files are.
        results: the content of ``test_results.json``.
        files: the written files.
    """

    folder: Path
    results: Mapping[str, Any]
    files: tuple[Path, ...]

    @property
    def metrics(self) -> dict[str, float]:
        """``<domain>/<metric>``, in percent."""
        return _flat(self.results["domains"])


@dataclass(frozen=True)
class Predictions:
    """Predicted images as files.

    Attributes:
        folder: where the files are.
        files: label maps, pictures, tables.
        statistics: the source of BatchNorm's statistics, in words.
    """

    folder: Path
    files: tuple[Path, ...]
    statistics: str


@dataclass(frozen=True)
class Prepared:
    """A data set on disk.

    Attributes:
        root: its folder.
        splits: folders of the written splits.
    """

    root: Path
    splits: tuple[Path, ...]


def _open_run(run: Run | str | Path, options: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
    """The folder of a run, and options of it; a run brings what it trusts."""
    if isinstance(run, Run):
        return run.folder, {"trust": run.trust, **options}
    return Path(run), options


def train(
    config: Config | str | Path,
    methods: Sequence[str] = (),
    *,
    work_dir: str | Path | None = None,
    options: Options = (),
    seed: int | None = None,
    amp: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool | None = None,
) -> Run:
    """Train a config and return the finished run.

    Args:
        config: the name or path of a setting or experiment; or a loaded config, which has its
            methods and options: omit the other arguments.
        methods: merged over it, such as ``["fedasam", "swa"]``.
        work_dir: default: ``work_dirs/<experiment>/seed<seed>``; of a config that was made in
            Python and has none, ``work_dirs/run``.
        options: overrides of config fields, ``{"train_cfg.max_rounds": 10}`` or
            ``["train_cfg.max_rounds=10"]``.
        seed: default: the config's, else 0.
        amp: train in bfloat16.
        resume: continue from the newest checkpoint in the work dir.
        overwrite: delete the run in the work dir; without it or ``resume`` it is refused.
        quiet: show no progress and no warnings of rounds; default: True, in a notebook False.
    """
    if quiet is None:
        quiet = "ipykernel" not in sys.modules
    if not isinstance(config, Config):
        config = load_config(
            config, methods, work_dir, options, seed, amp, resume, overwrite=overwrite
        )
    elif methods or work_dir or options or seed is not None or amp or resume or overwrite:
        raise ConfigError(
            "train: methods and options cannot be added to a loaded config: give a name instead"
        )
    work_dir = experiment.train(config, quiet=quiet)
    parts = own_parts(config).values()  # imported by now
    return read_run(work_dir, [Path(part).resolve() for part in parts])


def read_run(folder: str | Path, trust: Trust = ()) -> Run:
    """Read a finished run, whether it was evaluated or not.

    Args:
        folder: its work dir. Raises DataError if the run is not finished or its files are damaged.
        trust: code that the run imports and that is executed where its model is built: a
            ``FILE.py``, a folder, an installed module, or several of them.
    """
    from fedseg.runs import run_files

    path = Path(folder) / FILE_NAME
    check_finished(read_results(path, strict=False), path)
    run = run_files.read_run(folder, strict=False)
    return Run(run.folder, run.results, tuple(run.history), tuple(as_list(trust)))


def evaluate(
    run: Run | Config | str | Path,
    checkpoint: str | Path | None = None,
    methods: Sequence[str] = (),
    *,
    out: str | Path | None = None,
    options: Options = (),
    amp: bool = False,
    trust: Trust = (),
    pictures: int = 0,
) -> Evaluation:
    """Evaluate a checkpoint on every domain; needs no training data.

    Args:
        run: a run or its work dir, whose recorded config is read as data; or a config together
            with a checkpoint.
        checkpoint: its file; default: the newest of the run.
        methods: for a config given by name; a loaded one has its methods.
        amp: evaluate a config in bfloat16.
        out: where files go; default: ``test/<checkpoint's name>`` in the work dir of its run.
        options: overrides of config fields.
        trust: code of the run that is executed, as in :func:`read_run`; default: what the run has.
        pictures: number of pictures per domain.
    """
    if isinstance(run, Run):
        run, trust = run.folder, trust or run.trust
    folder = Path(run) if not isinstance(run, Config) and Path(run).is_dir() else None
    _refuse_methods("evaluate", run, methods)
    if amp and folder is not None:
        raise ConfigError("evaluate: amp changes a config, not a run: give the config instead")
    if trust and folder is None:
        raise ConfigError("evaluate: trust applies to runs only: a config imports its own modules")
    if checkpoint is None and folder is None:
        if not isinstance(run, Config):
            setting_file(run)  # or there is no such thing at all
        raise ConfigError("checkpoint: is missing; only a run's folder has a default")
    if checkpoint is not None and not Path(checkpoint).is_file():
        raise DataError(f"{checkpoint}: no such checkpoint")
    if folder is None:
        config = copy.deepcopy(run) if isinstance(run, Config) else load_config(run, methods)
        experiment.override_fields(config, options)
        experiment.prepare_config(config, TEST)
    from fedseg.files import own_folder
    from fedseg.report.pictures import write_test_pictures
    from fedseg.runner.checkpoint import run_folder
    from fedseg.runner.recorded import newest_checkpoint, recorded
    from fedseg.runner.testing import evaluate_checkpoint, write_test_results
    from fedseg.runner.work_dir import lock_work_dir

    chosen = Path(checkpoint) if checkpoint is not None else newest_checkpoint(folder)[1]
    if folder is None:
        place = Path(out or run_folder(chosen) / "test" / chosen.stem)
        reading = nullcontext((experiment.override(config, place, amp=amp), None))
    else:
        place = Path(out or own_folder(folder, f"test/{chosen.stem}"))
        reading = recorded(folder, place, options, trust)
    with reading as (config, whole), errors_name_their_source(config), lock_work_dir(place):
        runner, results = evaluate_checkpoint(config, chosen, whole)
        files = write_test_results(results, place)
        if pictures > 0:
            files += write_test_pictures(
                runner.test_loop, results["domains"], place / "pictures", pictures
            )
    return Evaluation(place, results, tuple(files))


def predict(
    run: Run | str | Path,
    paths: Sequence[str | Path] | str | Path | None = None,
    *,
    out: str | Path,
    batch_size: int | None = None,
    advance: Any = lambda images: None,
    **options: Any,
) -> Predictions:
    """Predict photographs, videos and folders of them, and write the predictions.

    Args:
        run: a run or its work dir, whose recorded config is read as data.
        paths: files and folders; None: the run's test images, exactly as evaluated.
        out: the folder for label maps and pictures, or ``predictions.csv`` of classes.
        batch_size: default: that of the run's test images.
        advance: called after each batch with its number of images, for a progress bar.
        options: those of :func:`fedseg.inference.predictor.opened`.
    """
    from fedseg.inference import files
    from fedseg.inference.predictor import opened

    paths = [paths] if isinstance(paths, str | Path) else paths
    if paths is not None:
        files.find_images(paths)
    folder, options = _open_run(run, options)
    with opened(folder, **options) as predictor:
        if paths is None:
            written = files.write_test_predictions(predictor, Path(out), advance)
        else:
            written = files.write_predictions(predictor, paths, Path(out), batch_size, advance)
        return Predictions(Path(out), tuple(written), predictor.statistics)


def export(
    run: Run | str | Path,
    format: str,
    *,
    out: str | Path | None = None,
    size: tuple[int, int] | None = None,
    **options: Any,
) -> Path:
    """Write a run's model for other programs; returns its file or folder.

    Args:
        run: a run or its work dir, whose recorded config is read as data.
        format: ``torchscript``, ``onnx``, ``torch`` (a state dict) or ``mmseg``.
        out: default: a file or folder in ``export`` in the run's folder.
        size: (height, width) of the photographs; default: that of the first test image.
        options: those of :func:`fedseg.inference.predictor.opened`.
    """
    from fedseg.files import own_folder
    from fedseg.inference import export as module
    from fedseg.inference.predictor import opened

    folder, options = _open_run(run, options)
    place = Path(out) if out else own_folder(folder, "export") / module.FORMATS.get(format, "")
    with opened(folder, **options) as predictor:
        return module.export(predictor, format, place, size)


def profile(
    target: Run | Config | str | Path,
    methods: Sequence[str] = (),
    *,
    size: tuple[int, int] | None = None,
    batch_size: int = 1,
    device: str | None = None,
    amp: bool = False,
    options: Options = (),
    trust: Trust = (),
) -> dict[str, Any]:
    """Measure parameters, FLOPs by part, latency, memory and bytes of a round; plain values.

    Args:
        target: a run, its work dir, a config or the name of one.
        methods: for a config given by name.
        size: (height, width) of the network's input; default: that of a preprocessed test image.
        batch_size: images in a batch.
        device: such as ``cuda``; default: the config's.
        amp: measure in bfloat16.
        options: overrides of config fields.
        trust: code of the run that is executed, as in :func:`read_run`; default: what the run has.
    """
    from fedseg.inference.profile import profile_config, profile_run

    if isinstance(target, Run):
        target, trust = target.folder, trust or target.trust
    options = [options] if isinstance(options, str | Mapping) else [*options]
    options += [f"device={device}"] if device else []
    options += ["train_cfg.amp=True"] if amp else []
    sizes = {"size": size, "batch_size": batch_size}
    _refuse_methods("profile", target, methods)
    if not isinstance(target, Config) and Path(target).is_dir():
        return profile_run(Path(target), options, trust, **sizes)
    config = copy.deepcopy(target) if isinstance(target, Config) else load_config(target, methods)
    experiment.override_fields(config, options)
    with errors_name_their_source(config):
        return profile_config(config, **sizes)


def new(kind: str, name: str, folder: str | Path | None = None) -> list[Path]:
    """Write a template: a folder with a runnable file, a config and a test; returns the files.

    Args:
        kind: ``algorithm``, ``method``, ``dataset`` or ``loss``.
        name: of the module, such as ``halfway``.
        folder: a new folder; default: the name.
    """
    from fedseg.templates import write_new

    return write_new(kind, name, Path(folder or name))


def browse(
    config: Config | str | Path,
    methods: Sequence[str] = (),
    *,
    out: str | Path = "browse.png",
    clients: int = 10,
    images: int = 6,
    round: int = 1,
    options: Options = (),
) -> Path:
    """Write a contact sheet of what clients see in a round: augmented images with their labels.

    Args:
        config: a setting or experiment, its path, or a loaded config.
        methods: merged over it.
        out: the picture, PNG, SVG or PDF by its suffix.
        clients: number of clients, evenly spaced in the list of all.
        images: largest number of images per client.
        round: the round whose random augmentation is shown.
        options: overrides of config fields.
    """
    _refuse_methods("browse", config, methods)
    config = copy.deepcopy(config) if isinstance(config, Config) else load_config(config, methods)
    experiment.override_fields(config, options)
    complete = experiment.prepare_config(config, TRAIN)
    from fedseg.report.browse import write_contact_sheet

    with errors_name_their_source(complete):
        return write_contact_sheet(complete, Path(out), clients, images, round)


def share(
    run: Run | str | Path, out: str | Path, license: str = "other", upload: str | None = None
) -> Path:
    """Write a finished run as an archive with a model card; returns its path.

    Args:
        run: a run or its work dir.
        out: the ``.zip`` file.
        license: license id of the weights, as on the Hugging Face hub.
        upload: also upload to this repository of the hub (``user/name``), with your token.
    """
    from fedseg.inference import share as module

    return module.share(
        run.folder if isinstance(run, Run) else Path(run), Path(out), license, upload
    )


def verify(file: str | Path, out: str | Path | None = None) -> Mapping[str, Any]:
    """Check an archive of :func:`share` without trusting it; returns its name, round and metrics.

    Args:
        file: the archive.
        out: a new folder to unpack it to, which can then be used as a run's work dir.
    """
    from fedseg.inference import share as module

    return module.verify(Path(file), None if out is None else Path(out))


def prepare(data_set: str, root: str | Path | None = None, **options: Any) -> Prepared:
    """Verify or render a data set and write its splits, as ``fedseg prepare`` does.

    Args:
        data_set: cityscapes, idda, camvid, cifar10, cifar100, mnist, landmarks,
            segmentation or a published layout, such as acdc.
        root: its folder; default: ``data/<data_set>``, for rendered shapes ``data/demo_shapes``.
        options: those of ``fedseg prepare DATA_SET --help``, as the function ``prepare`` of the
            data set's module has them, for example :func:`fedseg.data_prep.idda.prepare`.
    """
    if data_set not in data_sets.DATA_SETS:
        hint = did_you_mean(data_set, data_sets.DATA_SETS)
        known = ", ".join(data_sets.DATA_SETS)
        raise ConfigError(f"prepare: unknown {data_set!r}{hint}; known: {known}")
    outcome = data_sets.prepare(data_set, None if root is None else Path(root), **options)
    return Prepared(outcome.root, tuple(outcome.splits))
