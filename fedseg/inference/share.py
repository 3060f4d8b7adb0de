"""A run as one archive: config, results, history, last weights, a model card, checksums."""

import json
import re
import shutil
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jinja2 import Environment, FileSystemLoader

import fedseg
from fedseg.errors import ConfigError, DataError
from fedseg.files import atomic_writer, own_path, read_json, sha256, write_text
from fedseg.metric_names import find_set, flatten
from fedseg.runner.checkpoint import CHECKPOINTS, Facts, load_checkpoint
from fedseg.runner.recorded import newest_checkpoint
from fedseg.runner.state_store import save_tensors
from fedseg.runs.config import CONFIG_FILE, resume_command
from fedseg.runs.history import HISTORY, plain, summarize
from fedseg.runs.run_files import RunFiles, read_run
from fedseg.runs.schema import FILE_NAME
from fedseg.units import format_bytes

CARD, SUMS = "README.md", "checksums.json"
TEXTS = (CONFIG_FILE, FILE_NAME, HISTORY, CARD, SUMS)
WEIGHTS = re.compile(r"checkpoints/round_\d{6,12}\.pth")
LARGEST_WEIGHTS = 2**33  # bytes
LARGEST_TEXT = 2**26  # bytes of another file
LICENSE = re.compile(r"[\w.+-]{1,64}")


def share(run: Path, out: Path, license: str = "other", upload: str | None = None) -> Path:
    """Write a finished run as an archive; see :func:`verify`.

    Args:
        license: of the weights, an identifier of the Hugging Face hub such as ``apache-2.0``.
        upload: a repository ``USER/NAME`` of the hub; needs huggingface_hub and its token.
    """
    if not LICENSE.fullmatch(license):
        raise ConfigError(f"license: {license!r} is not an identifier, such as apache-2.0")
    files = read_run(run)
    if files.results is None:
        advice = f"continue it with {resume_command(run)}"
        raise DataError(f"{run}: the run is not finished: {advice}")
    if not files.history:
        raise DataError(f"{run / HISTORY}: is missing: restore it, an archive has every round")
    round_, checkpoint = newest_checkpoint(run)
    payload = load_checkpoint(checkpoint)
    with TemporaryDirectory() as place, TemporaryDirectory() as other:
        folder = Path(place)
        for name in (CONFIG_FILE, FILE_NAME, HISTORY):
            (folder / name).write_bytes(own_path(run, name).read_bytes())
        kept = {key: value for key, value in payload.items() if key in Facts.model_fields}
        weights = folder / CHECKPOINTS / checkpoint.name
        save_tensors(weights, {**kept, "stores": {}})  # the archive has sums of its own
        write_text(folder / CARD, model_card(files, license, round_))
        names = [CONFIG_FILE, FILE_NAME, HISTORY, CARD, f"{CHECKPOINTS}/{checkpoint.name}"]
        sums = {name: sha256(folder / name) for name in names}
        write_text(folder / SUMS, json.dumps(sums, indent=1) + "\n")
        packed = Path(other) / "run.zip"
        with zipfile.ZipFile(packed, "w") as archive:
            for name in [*names, SUMS]:
                # the same run gives the same bytes: no time of the files
                entry = zipfile.ZipInfo(name)
                entry.compress_type = zipfile.ZIP_DEFLATED
                with archive.open(entry, "w", force_zip64=True) as target:
                    target.write((folder / name).read_bytes())
        with opened(packed, run):  # nobody could take what is refused here
            pass
        with atomic_writer(out, "wb") as file, open(packed, "rb") as source:
            shutil.copyfileobj(source, file)
        if upload is not None:
            _upload(folder, upload)
    return out


def _upload(folder: Path, repository: str) -> None:
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise ConfigError("upload: needs huggingface_hub: pip install huggingface_hub") from error
    try:
        HfApi().create_repo(repository, exist_ok=True)
        HfApi().upload_folder(repo_id=repository, folder_path=str(folder))
    except Exception as error:  # of the network, the token or the name
        raise DataError(f"upload: {repository}: {type(error).__name__}: {error}") from error


def model_card(run: RunFiles, license: str, round_: int) -> str:
    """The card of a finished run in the Hugging Face hub's format."""
    results, sets = run.results, dict(run.results.data)
    parts = [
        (*name.rpartition("/")[::2], value)
        for name, value in flatten(results.final).items()
        if name in run.last
    ]
    segmentation = any(metric in ("mIoU", "mDice", "mBIoU") for _, metric, _ in parts)
    task = "image-segmentation" if segmentation else "image-classification"
    entries = []
    for domain, metric, value in parts:
        test = results.tests.get(find_set(domain, results.tests), results.train)
        data = test.dataset
        entries.append(
            {
                "task": {"type": task},
                "dataset": {"name": f"{data} ({domain})", "type": data, "split": domain},
                "metrics": [{"type": metric, "value": value, "name": metric}],
            }
        )
    head = {  # values as JSON, which is YAML
        "library_name": "fedseg",
        "license": license,
        "pipeline_tag": task,
        "tags": ["federated-learning", task, results.algorithm["type"]],
        "datasets": sorted({entry.dataset for entry in sets.values()}),
        "metrics": sorted({metric for _, metric, _ in parts}),
        "model-index": [{"name": results.name, "results": entries}],
    }
    templates = Environment(loader=FileSystemLoader(Path(__file__).parent), trim_blocks=True)
    templates.filters.update(cell=_cell, json=json.dumps)
    facts = {"round": round_, "figures": parts, "sets": sets, "version": fedseg.__version__}
    return templates.get_template("card.md.jinja").render(head=head, results=results, **facts)


def _cell(text: Any) -> str:
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", str(text))


# ---------------------------------------------------------------- reading one


@contextmanager
def opened(path: Path, named: Path | None = None) -> Iterator[tuple[Path, RunFiles, int]]:
    """An archive from anybody, checked, in a folder of its own, its run, and its round.

    ``named``: what messages name instead of the archive.

    Raises:
        DataError: it is damaged; has other files than :func:`share` writes, links, or more bytes
            than these may have; a checksum, the history or the weights do not match.
    """
    with TemporaryDirectory() as place:
        folder = Path(place)
        _extract(path, folder)
        names = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()} - {SUMS}
        try:
            sums = read_json(folder / SUMS)
            if not isinstance(sums, dict) or sums.keys() != names:
                raise DataError(f"{SUMS}: does not list the files of the archive: share it again")
            for name, digest in sums.items():
                if sha256(folder / name) != digest:
                    raise DataError(f"{name}: was changed, its checksum differs: share it again")
            run = read_run(folder)
            if run.results is None or run.results.edited:
                raise DataError(f"{FILE_NAME}: {run.results.edited}")
            round_, checkpoint = newest_checkpoint(folder)
            payload = load_checkpoint(checkpoint)
            meant = run.results.completed_rounds, run.results.config_sha256
            meta = payload.get("meta", {})
            if (payload.get("round"), meta.get("config_sha256")) != meant:
                raise DataError(f"{checkpoint.name}: is not the last checkpoint of this run")
            history = {"bytes": (folder / HISTORY).stat().st_size, "sha256": sums[HISTORY]}
            if payload.get("history") != history:
                raise DataError(f"{HISTORY}: does not match checkpoint {checkpoint.name}")
            computed = plain(summarize(run.history))
            del computed["seconds"]
            if run.results.model_dump(include=set(computed)) != computed:
                raise DataError(f"{FILE_NAME}: does not follow from {HISTORY}")
            card = (folder / CARD).read_bytes()
            license = re.search(rb'^license: "([\w.+-]{1,64})"$', card, re.MULTILINE)
            if not license or model_card(run, license[1].decode(), round_).encode() != card:
                raise DataError(f"{CARD}: is not the card of this run: share it again")
        except DataError as error:
            text = str(error).replace(f"{folder}/", "")
            raise DataError(f"{named or path}: {text}") from error
        yield folder, run, round_


def _extract(path: Path, folder: Path) -> None:
    """Write the members, whose names can only be those of :func:`share`."""
    if not path.is_file():
        raise DataError(f"{path}: is not a file: name an archive of fedseg share")
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            names = [entry.filename for entry in entries]
            weights = [name for name in names if WEIGHTS.fullmatch(name)]
            if sorted(names) != sorted([*TEXTS, *weights]) or len(weights) != 1:
                other = sorted({*names} ^ {*TEXTS, *weights})
                raise DataError(
                    f"{path}: is not an archive of fedseg share: it has other or missing files "
                    f"({', '.join(map(repr, other[:5])) or 'names that occur twice'})"
                )
            for entry in entries:
                limit = LARGEST_WEIGHTS if entry.filename in weights else LARGEST_TEXT
                mode = entry.external_attr >> 16
                if mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode):
                    raise DataError(f"{path}: {entry.filename}: is a link or device: not read")
                packed = max(entry.compress_size, 1)
                if entry.file_size > limit or entry.file_size > 1000 * packed + 2**20:
                    size = format_bytes(entry.file_size)
                    raise DataError(f"{path}: {entry.filename}: would unpack to {size}: not read")
                target = folder / entry.filename
                target.parent.mkdir(exist_ok=True)
                with archive.open(entry) as source, open(target, "xb") as file:
                    shutil.copyfileobj(source, file)  # what it says at most
    except DataError:
        raise
    except Exception as error:  # damaged bytes can fail in any way
        raise DataError(f"{path}: cannot be read as an archive ({error}): get it again") from error


def verify(path: Path, out: Path | None = None) -> Mapping[str, Any]:
    """Check an archive of :func:`share` without trusting it; ``out``: unpack it to a new folder.

    Returns its name, round and metrics. Nothing in it is executed.
    """
    with opened(path) as (folder, run, round_):
        if out is not None:
            if out.exists() and (not out.is_dir() or any(out.iterdir())):
                raise DataError(f"{out}: exists: name a new or empty folder")
            for file in folder.rglob("*"):
                if file.is_file():
                    with atomic_writer(out / file.relative_to(folder), "wb") as target:
                        target.write(file.read_bytes())
        return {"name": run.name, "round": round_, "metrics": dict(run.last)}
