"""One run for the page: facts, curves, classes, corruptions, clients, predictions.

All of it may come from anyone: what has another form than expected is left out.
"""

import hashlib
import io
import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import chain, groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

from PIL import Image

from fedseg.checks import is_number
from fedseg.config.check import complete_config
from fedseg.config.compose import known_configs
from fedseg.config.layers import naming
from fedseg.config.roles import MEASUREMENT, METHOD, PROTOCOL, keep, select
from fedseg.errors import ConfigError, UserError, lacks_memory
from fedseg.files import atomic_writer, write_text
from fedseg.runner.experiment import load_config
from fedseg.runs.config import config_json
from fedseg.runs.curvature_files import eigenvalues, over_rounds
from fedseg.runs.run_files import FoundRun
from fedseg.runs.schema import FILE_NAME, Results

MOST_ROUNDS = 100  # columns of the map of clients
MOST_EIGENVALUES = 100
MOST_PICTURES = 12  # of a run
PICTURE_WIDTH = 1100  # pixels; larger pictures are scaled down
LARGEST_PICTURE = 40_000_000  # pixels; larger ones are not decoded
NAME = re.compile(r"(?!.*\.py$)\w[\w.+-]*", re.ASCII | re.IGNORECASE)  # neither option nor file
OPTION = re.compile(r"[a-z]\w*(\.\w+)*=(-?[0-9][0-9.e+-]*|True|False|None)", re.ASCII)
MOST_OPTIONS = 6  # of a command


def run_data(run: FoundRun, folder: Path, messages: list[str]) -> dict[str, Any]:
    """A run for page and charts; copies predictions and config to ``folder``, adds messages."""
    results, curves, final = run.results, run.results.curves, run.results.final
    metrics = {"training loss": curves.loss, **curves.figures}
    metrics |= over_rounds(results, curves.rounds)
    command, remark = train_command(results)
    return {
        "name": results.name,
        "seed": results.seed,
        "facts": _facts(results),
        "curves": {"rounds": curves.rounds, "bytes": curves.bytes, "metrics": metrics},
        "classes": {d: _numbers(m["IoU"]) for d, m in final.items() if _numbers(m.get("IoU"))},
        "miou": _numbers({domain: m.get("mIoU") for domain, m in final.items()}),
        "corruptions": _corruptions(final),
        "spectrum": eigenvalues(results, MOST_EIGENVALUES),
        "clients": _clients(run, messages),
        "pictures": _pictures(run, folder / "pictures", messages),
        "config": _config(run, folder / "configs"),
        "folder": str(run.folder),
        "link": _link(run.folder, folder.parent),
        "command": command,
        "remark": remark,
        "verify": f"fedseg leaderboard verify {shlex.quote(str(run.folder))}",
    }


def _link(run: Path, board: Path) -> str:
    """A run's folder from the board's; none elsewhere, where a click would show strangers' files.

    What lies below the board's folder goes where the board goes.
    """
    place, root = (Path(os.path.realpath(folder)) for folder in (run, board))
    return quote(os.fsencode(place.relative_to(root))) if place.is_relative_to(root) else ""


def train_command(results: Results) -> tuple[str, str]:
    """The command that trains a run of the suite's names again, and a remark; else empty.

    What its config has besides are options of the command if they are few numbers: text may come
    from anyone, and could name files and modules. The remark says if there are others.
    """
    names = [results.setting, *(results.methods or [])]
    if not all(isinstance(name, str) and NAME.fullmatch(name) for name in names):
        return "", ""
    try:
        composed = _composed(*names, amp=results.amp)
    except UserError:  # this version does not have them
        return "", ""
    chosen = f" --with {' '.join(names[1:])}" if names[1:] else ""
    command = f"fedseg train {names[0]}{chosen} --seed {results.seed}{' --amp' * results.amp}"
    recorded = _recipe(results.config)
    if recorded == composed:
        return command, ""
    old, new = select(composed), select(recorded)
    options = tuple(f"{k}={v!r}" for k, v in new.items() if repr(v) != repr(old.get(k, ...)))
    if 0 < len(options) <= MOST_OPTIONS and all(map(OPTION.fullmatch, options)):
        # they may fit nothing, or not be all: what is composed lacks nothing then
        with suppress(Exception):
            if _composed(*names, amp=results.amp, options=options) == recorded:
                return f"{command} --cfg-options {' '.join(options)}", ""
    return command, "with other options: see its config"


@lru_cache(maxsize=1000)
def _composed(
    setting: str, *methods: str, amp: bool, options: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The recipe of names; a file of this name in the current folder is none of the suite's."""
    path = known_configs().get(setting)
    if path is None:
        raise ConfigError(f"{setting}: no config of this name")
    config = load_config(path, methods, options=options, amp=amp)
    with naming(config):
        return _recipe(complete_config(config).to_dict())


def _recipe(config: Mapping[str, Any]) -> dict[str, Any]:
    """A complete config as in its file, without seed, places and what is of the machine."""
    return json.loads(config_json(keep(config, METHOD, PROTOCOL, MEASUREMENT)))


def _facts(results: Results) -> list[tuple[str, str]]:
    model = results.model
    return [
        ("experiment", results.name),
        ("seed", str(results.seed)),
        ("rounds", f"{results.completed_rounds:,}"),
        ("clients", f"{results.train.clients:,}, {results.clients_per_round} a round"),
        ("network", f"{model.network or model.type}, {model.parameters:,} parameters"),
        ("device", f"{results.device}{', bfloat16' if results.amp else ''}"),
        ("config", results.config_sha256[:12]),
    ]


def _number(value: Any, digits: int = 3) -> float | None:
    """A number that JavaScript reads as finite, or None."""
    return round(value, digits) if is_number(value) and abs(value) < 1e300 else None


def _numbers(values: Any) -> dict[str, float | None]:
    return {k: _number(v) for k, v in values.items()} if isinstance(values, dict) else {}


def _corruptions(final: Mapping[str, Mapping[str, Any]]) -> dict[str, list[float | None]]:
    """Accuracy by corruption, one per severity, of the first test set that has it."""
    tables = (metrics.get("corruptions") for metrics in final.values())
    rows = next((rows for rows in tables if isinstance(rows, dict) and rows), {})
    return {n: [*map(_number, values)] for n, values in rows.items() if isinstance(values, list)}


def _clients(run: FoundRun, messages: list[str]) -> dict[str, Any] | None:
    """Accuracy by client over rounds, clients of one main class together; None without it."""
    entry = run.results.extras.get("client_accuracy")
    if entry is None:
        return None
    try:
        clients, main, classes = entry["clients"], entry["main_class"], entry["classes"]
        step = max(1, -(-len(entry["rounds"]) // MOST_ROUNDS))
        rounds = [int(value) for value in entry["rounds"]][::-step][::-1]
        lines = entry["accuracy"][::-step][::-1]
        order = sorted(range(len(clients)), key=lambda i: (main[i], i))
        values = [[_number(line[i], 1) for line in lines] for i in order]
        names = [f"{clients[i]} ({classes[main[i]]})" for i in order]
        if len(lines) != len(rounds) or not values or not rounds:
            raise ValueError("lists of different lengths")
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        messages.append(
            f"{run.folder / FILE_NAME}: client_accuracy: is damaged ({error!r}), so the run has "
            "no map of its clients"
        )
        return None
    is_train = entry.get("images") == "train"
    images = "their own training images" if is_train else "test images in their mix of classes"
    return {"rounds": rounds, "names": names, "values": values, "images": images}


def _config(run: FoundRun, folder: Path) -> str:
    """Write a run's recorded config anew, as data."""
    text = config_json(run.results.config)
    name = f"{hashlib.sha256(text.encode()).hexdigest()[:20]}.json"
    write_text(folder / name, text)
    return f"page/configs/{name}"


def _pictures(run: FoundRun, folder: Path, messages: list[str]) -> list[dict[str, Any]]:
    """Copy a run's predictions, ``pictures/<domain>/<image>.png``, as new JPEG files.

    A file is named by its content, so that runs share equal ones and a page can be written over an
    earlier one. Links are not followed.
    """
    source = run.folder / "pictures"
    if source.is_symlink() or not source.is_dir():
        return []
    paths = [p for p in sorted(source.glob("*/*.png")) if p.is_file() and not p.is_symlink()]
    domains = [
        [*files] for place, files in groupby(paths, lambda p: p.parent) if not place.is_symlink()
    ]
    share = max(1, MOST_PICTURES // max(1, len(domains)))
    copied = []
    for path in chain(*(paths[:share] for paths in domains[:MOST_PICTURES])):
        try:
            copied.append(_copy(path, folder))
        except Exception as error:  # a damaged file may break its decoder in any way
            if lacks_memory(error):
                raise
            messages.append(f"{path}: is not a picture ({error}): left out")
    return copied


def _copy(path: Path, folder: Path) -> dict[str, Any]:
    with Image.open(path, formats=("PNG",)) as picture:
        if picture.width * picture.height > LARGEST_PICTURE:
            raise ValueError(f"it has {picture.width} x {picture.height} pixels")
        picture = picture.convert("RGB")
    picture.thumbnail((PICTURE_WIDTH, PICTURE_WIDTH * 4), Image.Resampling.LANCZOS)
    content = io.BytesIO()
    picture.save(content, "JPEG", quality=85, optimize=True)
    name = f"{hashlib.sha256(content.getvalue()).hexdigest()[:20]}.jpg"
    with atomic_writer(folder / name, "wb") as file:
        file.write(content.getvalue())
    place = {"domain": path.parent.name, "image": path.stem}
    shape = {"width": picture.width, "height": picture.height}
    return {"src": f"page/pictures/{name}", **place, **shape}


def remove_unused(folder: Path, runs: Iterable[Mapping[str, Any]]) -> None:
    """Remove the copies in a page's folder that an earlier one left and none of the runs uses."""
    runs = list(runs)
    used = {picture["src"] for run in runs for picture in run["pictures"]}
    used |= {run["config"] for run in runs}
    for kind, suffix in (("pictures", "jpg"), ("configs", "json")):
        for path in folder.glob(f"page/{kind}/*.{suffix}"):
            copied = re.fullmatch(r"[0-9a-f]{20}", path.stem)
            if copied and f"page/{kind}/{path.name}" not in used:
                path.unlink()
