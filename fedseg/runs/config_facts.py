"""What a composed config says of a run: checksums, components, schedule, data."""

from collections.abc import Mapping
from typing import Any

from fedseg.config.keys import MEASUREMENT, METHOD, PLACE, PROTOCOL, ROLES, keep
from fedseg.runs.from_json import digest

COMPONENTS = ("algorithm", "local_loss", "optim_wrapper", "averaging", "batchnorm")
WINDOW = 100  # rounds at the end over which metrics are averaged, unless the config says otherwise


def config_digest(config: Any) -> str:
    """SHA-256 of a config (MMEngine's) without where a run writes and what it is called."""
    content = keep(config.to_dict(), *(role for role in ROLES if role != PLACE))
    if "executor" in content:  # whoever trains the clients; it was part of older digests
        content["executor"] = {"type": "InProcessExecutor"}
    return digest(content)


def experiment_digest(config: Any) -> str:
    """SHA-256 of what the seeds of one experiment share: no seed, no paths, no loader settings."""
    return digest(keep(config.to_dict(), METHOD, PROTOCOL, MEASUREMENT))


def config_facts(config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of :class:`fedseg.runs.schema.Results` that a complete config decides.

    Without ``model.parameters``, and of the data what :func:`loader_facts` gives.
    """
    train, model = config["train_cfg"], config["model"]
    steps, start = train.get("local_steps"), config.get("load_from")
    return {
        "setting": config.get("setting"),
        "methods": config.get("methods"),
        "load_from": None if start is None else str(start),
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


def loaders(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The loaders of a config by the names of their data: ``train``, ``test:seen``."""
    tests = config.get("val_dataloader") or {}
    named = {"train": config["train_dataloader"], **{f"test:{n}": t for n, t in tests.items()}}
    return {name: loader for name, loader in named.items() if loader is not None}


def loader_facts(loader: Mapping[str, Any]) -> dict[str, Any]:
    """What a loader's config says of its data: split, how images are prepared, the clients."""
    dataset = loader["dataset"] if isinstance(loader.get("dataset"), Mapping) else {}
    style = dataset.get("style")
    facts = {
        "split": dataset.get("split"),
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
