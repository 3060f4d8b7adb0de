"""Measuring quantities of a checkpoint: each is written to a file of its own when it is done."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from fedseg.cli import progress
from fedseg.curvature.quantities import QUANTITIES, Subject
from fedseg.curvature.run_data import TRAIN, RunData, Selection
from fedseg.curvature.surface import BATCH
from fedseg.errors import ConfigError
from fedseg.files import digest, own_folder, read_json, write_text
from fedseg.runner.checkpoint import run_folder
from fedseg.runner.work_dir import lock_work_dir
from fedseg.runs.curvature_files import CURVATURE, read_quantity
from fedseg.runs.history import plain

SCHEMA_VERSION = 2


def measure(
    run: RunData,
    checkpoint: Path,
    selection: Selection,
    quantities: Sequence[str],
    options: Mapping[str, Any],
    *,
    global_model: bool = False,
    folder: Path | None = None,
) -> dict[str, Any]:
    """Measure the quantities of a checkpoint that are not in the folder yet.

    Args:
        run: the checkpoint's.
        checkpoint: its file.
        selection: data D.
        quantities: their names.
        options: those of all quantities, by name.
        global_model: measure the global model, not the average.
        folder: where a quantity's file is; None: see :func:`default_folder`.

    Returns:
        ``folder``, ``checkpoint``, its ``round``, ``data``, ``num_samples`` and the values of each
        of the ``quantities``.

    Raises:
        ConfigError: a file is of another model, of other data or options.
        TrainingError: a quantity cannot be computed.
    """
    name_of_data = data_name(selection)
    batch_statistics = run.global_statistics(selection.domain) == BATCH
    if not batch_statistics:
        selection = run.in_small_batches(selection)
    folder = folder or default_folder(run, checkpoint, selection, global_model)
    with lock_work_dir(folder), progress(transient=True) as bars:
        point = run.load(checkpoint, global_model)
        subject = Subject(
            run=run,
            checkpoint=checkpoint,
            point=point,
            selection=selection,
            folder=folder,
            bars=bars,
        )
        about = {
            "schema_version": SCHEMA_VERSION,
            **run.identity(checkpoint),
            "changed": run.changed,
            "global_model": global_model,
            "data": name_of_data,
            "data_sha256": run.checksum(selection.domain),
            "num_samples": len(subject.samples),
            "batch_size": selection.batch_size,
        }
        values = {}
        for name in quantities:
            used = {option: options[option] for option in QUANTITIES[name].options}
            header = {**about, "quantity": name, "options": used}
            path = folder / f"{name}.json"
            if path.exists():
                _check_same(path, header)
                bars.console.print(f"{name}: measured before", markup=False)
            else:
                seconds = _measure_one(subject, name, used, header, path)
                bars.console.print(f"{name}: {seconds:.1f} s", markup=False)
            values[name] = read_quantity(path, name).values
    keys = ("checkpoint", "round", "data", "num_samples")
    return {"folder": folder, **{key: about[key] for key in keys}, "quantities": values}


def _measure_one(
    subject: Subject, name: str, options: dict[str, Any], header: dict[str, Any], path: Path
) -> float:
    """Measure a quantity and write its file; returns the seconds that it took."""
    begin = time.perf_counter()
    values = QUANTITIES[name].measure(subject, **options)
    seconds = time.perf_counter() - begin
    content = {
        **header,
        "device": str(subject.run.flat.w.device),
        "torch": torch.__version__,
        "seconds": seconds,
        "values": values,
    }
    write_text(path, json.dumps(plain(content), indent=2, allow_nan=False) + "\n")
    return seconds


def _check_same(path: Path, header: Mapping[str, Any]) -> None:
    """Raise ConfigError unless a file was measured of the same, in the same way."""
    content = read_json(path, "delete it")
    for key, value in plain(dict(header)).items():
        before = content.get(key) if isinstance(content, dict) else None
        if before != value:
            raise ConfigError(
                f"{path}: was measured with another {key} ({before!r}, now {value!r}): name "
                "another folder (--out), or delete it"
            )


def data_name(selection: Selection) -> str:
    """The name of data D: a domain or a client."""
    return selection.domain if selection.client is None else f"client {selection.client}"


def default_folder(
    run: RunData, checkpoint: Path, selection: Selection, global_model: bool = False
) -> Path:
    """``curvature/<checkpoint's name>`` in its run, and what is not the default."""
    words = [checkpoint.stem]
    if global_model:
        words.append("global")
    if selection.client is not None or selection.domain != TRAIN:
        words.append(data_name(selection).replace(" ", "_").replace("/", "_"))
    if run.changed:
        words.append(f"changed_{digest(run.changed)[:8]}")
    return own_folder(run_folder(checkpoint), f"{CURVATURE}/{'-'.join(words)}")
