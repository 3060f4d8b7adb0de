"""The composed config of a run: what it leaves in the work dir, and what that says of the run.

A run's folder often comes from somebody else, and a config file is a program. ``config.json`` holds
plain values, read without executing anything; a tuple is a list there. The ``.py`` file beside it
is for people.
"""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from pprint import pformat
from typing import Any

from fedseg.checks import walk
from fedseg.config.roles import MEASUREMENT, METHOD, PLACE, PROTOCOL, ROLES, keep
from fedseg.errors import DataError
from fedseg.files import digest, own_path, read_json, sha256

CONFIG_FILE = "config.json"
REWRITE = "write the file again with fedseg train CONFIG --work-dir DIR --resume"
COMPONENTS = ("algorithm", "local_loss", "optim_wrapper", "averaging")
# the key ``batchnorm`` of earlier versions: its type -> the entry of ``personal``
BATCHNORM = {"SiloBN": "@batchnorm.statistics", "FedBN": "@batchnorm"}
IN_DIGESTS = {"default_scope": "fedseg"}  # a key of earlier versions, which is in their digests


def resume_command(folder: Path) -> str:
    """The command that continues a run, but for its config."""
    return f"fedseg train CONFIG --work-dir {shlex.quote(str(folder))} --resume"


def config_json(config: Mapping[str, Any]) -> str:
    """A config as the text of ``config.json``; what is no plain value is text, as in its digest."""
    return json.dumps(config, indent=1, default=str, allow_nan=False) + "\n"


def plain_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config as plain values of JSON; what is none is the name of its class."""
    return json.loads(json.dumps(config, default=lambda part: type(part).__name__))


def config_text(config: Mapping[str, Any]) -> str:
    """A config as assignments of plain values; MMEngine's own text takes some 80 times as long."""
    lines = [f"{k} = {pformat(v, width=100, sort_dicts=False)}\n" for k, v in config.items()]
    return "".join(lines)


def recorded_config(folder: Path, checksum: str | None = None) -> dict[str, Any]:
    """A run's recorded config; ``checksum`` is that of ``config.json`` if the run has noted it."""
    path = own_path(folder, CONFIG_FILE)
    if not path.exists():
        raise DataError(f"{path}: is missing; {REWRITE}")
    if checksum is not None and path.is_file() and sha256(path) != checksum:
        raise DataError(f"{path}: was changed after the run wrote it")
    config = read_json(path, REWRITE)
    if not isinstance(config, dict):
        raise DataError(f"{path}: is not the config of a run")
    for key, _ in walk(config):
        if not key.isprintable():
            raise DataError(f"{path}: {key!r}: must be a key that can be printed")
    return _with_todays_keys(config)


def _with_todays_keys(config: dict[str, Any]) -> dict[str, Any]:
    """A recorded config whose ``batchnorm``, a key of earlier versions, is part of ``personal``.

    With options of its own, such as ``layers``, it has no counterpart and stays as it is.
    """
    policy = config.get("batchnorm")
    if policy is None:
        return {key: value for key, value in config.items() if key != "batchnorm"}
    kind = policy.get("type") if isinstance(policy, Mapping) else policy
    options = set(policy) - {"type", "priority"} if isinstance(policy, Mapping) else set()
    if options or not isinstance(kind, str) or kind not in BATCHNORM:
        return config
    personal = config.get("personal") or []
    entries = personal if isinstance(personal, list) else [personal]
    renamed = {key: value for key, value in config.items() if key != "batchnorm"}
    return {**renamed, "personal": [BATCHNORM[kind], *entries]}


# ---------------------------------------------------------------- facts


def config_digest(config: Any) -> str:
    """SHA-256 of a config (MMEngine's) without where a run writes and what it is called."""
    content = keep(config.to_dict(), *(role for role in ROLES if role != PLACE))
    if "executor" in content:  # whoever trains the clients; it was part of older digests
        content["executor"] = {"type": "InProcessExecutor"}
    return digest({**content, **IN_DIGESTS})


def experiment_digest(config: Any) -> str:
    """SHA-256 of what the seeds of one experiment share: no seed, no paths, no loader settings."""
    return digest({**keep(config.to_dict(), METHOD, PROTOCOL, MEASUREMENT), **IN_DIGESTS})


def config_facts(config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of :class:`fedseg.runs.schema.Results` that a complete config decides.

    Without ``model.parameters``, and of the data what :func:`loader_facts` gives.
    """
    train, model = config["train_cfg"], config["model"]
    steps, start = train.get("local_steps"), config.get("load_from")
    return {
        "setting": config.get("setting"),
        "methods": config.get("methods"),
        "load_from": _start_text(start),
        "rounds": train["max_rounds"],
        "model": {
            "type": model["type"],
            "network": recipe_of(model.get("network") or {}).get("type"),
            "options": {k: v for k, v in recipe_of(model).items() if k != "type"},
        },
        **{name: config.get(name) or None for name in COMPONENTS},
        "amp": bool(train.get("amp", False)),
        "local_epochs": (train.get("local_epochs") or 1) if steps is None else None,
        "local_steps": steps,
    }


def _start_text(start: Any) -> str | None:
    """The checkpoint of ``load_from``, and which model of it if the config says so."""
    if not isinstance(start, Mapping):
        return None if start is None else str(start)
    model = start.get("model")
    return str(start["path"]) if model is None else f"{start['path']} ({model})"


def loaders(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The loaders of a config by the names of their data: ``train``, ``test:seen``."""
    tests = config.get("val_dataloader") or {}
    named = {"train": config["train_dataloader"], **{f"test:{n}": t for n, t in tests.items()}}
    return {name: loader for name, loader in named.items() if loader is not None}


def loader_facts(loader: Mapping[str, Any]) -> dict[str, Any]:
    """A loader's facts: split, how images are prepared, the clients."""
    dataset = loader["dataset"] if isinstance(loader.get("dataset"), Mapping) else {}
    split, style = dataset.get("split"), dataset.get("style")
    facts = {
        "split": " and ".join(split) if isinstance(split, list | tuple) else split,
        "steps": list(loader.get("transforms") or dataset.get("pipeline") or []),
        "style": style if isinstance(style, Mapping | None) else {"type": str(style)},
    }
    if "partition" in loader:
        facts |= {"partition": recipe_of(loader["partition"]), "batch_size": loader["batch_size"]}
    return facts


def recipe_of(config: Any) -> dict[str, Any]:
    """Type and options of a component, without lists and parts (of clients, of a network)."""
    if not isinstance(config, Mapping):
        return {"type": type(config).__name__}
    scalars = (str, int, float, bool)
    return {k: v for k, v in config.items() if v is None or isinstance(v, scalars)}
