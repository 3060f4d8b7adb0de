"""The roles of config keys: the one table that digests, resuming and boards filter.

- ``identity`` tells apart the runs of one experiment;
- ``method`` is what a paper proposes: the rule of training and its hyper-parameters;
- ``protocol`` must be equal for results to be compared: data, network, sizes, rounds, precision;
- ``measurement`` says what is measured besides, and changes no figure;
- ``environment`` is of the machine: where data lie, workers, devices; it changes last digits only;
- ``place`` is where a run writes and what it is called.

A key is written with dots, ``train_dataloader.transforms.0.type``. A pattern covers a key and what
is below it. Each of its names may be a glob, and ``**`` in front is any number of names.
"""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Literal, get_args

Role = Literal["identity", "method", "protocol", "measurement", "environment", "place"]
ROLES: tuple[Role, ...] = get_args(Role)
IDENTITY, METHOD, PROTOCOL, MEASUREMENT, ENVIRONMENT, PLACE = ROLES

# of the patterns that cover a key the first one decides
PATTERNS: Mapping[str, Role] = {
    "work_dir": PLACE,
    "default_scope": PLACE,  # of earlier versions
    "resume": PLACE,
    "overwrite": PLACE,
    "experiment_name": PLACE,
    "setting": PLACE,
    "methods": PLACE,
    "log_level": PLACE,
    "visualizer": PLACE,
    # the machine, and when a run is looked at
    "**.data_root": ENVIRONMENT,
    "**.num_workers": ENVIRONMENT,
    "**.prefetch_factor": ENVIRONMENT,
    "train_dataloader.timeout": ENVIRONMENT,
    "val_dataloader.*.timeout": ENVIRONMENT,
    "model.recompute_losses": ENVIRONMENT,
    "executor": ENVIRONMENT,
    "device": ENVIRONMENT,
    "channels_last": ENVIRONMENT,
    "env_cfg": ENVIRONMENT,
    "default_hooks": ENVIRONMENT,
    "train_cfg.val_interval": ENVIRONMENT,
    "train_cfg.val_shares": ENVIRONMENT,
    "train_cfg.hook_interval": ENVIRONMENT,
    # chance
    "randomness.seed": IDENTITY,
    "randomness": ENVIRONMENT,
    # the method
    "**.priority": METHOD,
    "algorithm": METHOD,
    "local_loss": METHOD,
    "averaging": METHOD,
    "personal": METHOD,
    "attack": METHOD,
    "compression": METHOD,
    "privacy": METHOD,
    "robust": METHOD,
    "optim_wrapper": METHOD,
    "param_scheduler": METHOD,
    "custom_hooks": METHOD,
    "custom_imports": METHOD,
    "model.freeze": METHOD,
    "model.lora": METHOD,
    "model.stochastic_depth": METHOD,
    "model.projection": METHOD,
    # the protocol: rounds, network, clients
    "train_cfg.max_rounds": PROTOCOL,
    "train_cfg.local_epochs": PROTOCOL,
    "train_cfg.local_steps": PROTOCOL,
    "train_cfg.amp": PROTOCOL,
    "train_cfg.val_last_rounds": PROTOCOL,
    "train_cfg.val_last_interval": PROTOCOL,
    "train_cfg": METHOD,
    "model": PROTOCOL,
    "dtype": PROTOCOL,
    "load_from": PROTOCOL,
    "client_sampler": PROTOCOL,
    # training data
    "train_dataloader.type": METHOD,
    "train_dataloader.batch_size": PROTOCOL,
    "train_dataloader.shuffle": PROTOCOL,
    "train_dataloader.drop_last": PROTOCOL,
    "train_dataloader.transforms": PROTOCOL,
    "train_dataloader.dataset.style.type": METHOD,
    "train_dataloader.dataset": PROTOCOL,
    "train_dataloader.partition.seed": IDENTITY,
    "train_dataloader.partition": PROTOCOL,
    "train_dataloader": METHOD,
    # test sets
    "val_dataloader.*.type": MEASUREMENT,
    "val_dataloader.*.optional": MEASUREMENT,
    "val_dataloader.*.final_only": MEASUREMENT,
    "val_dataloader": PROTOCOL,
    "val_evaluator": PROTOCOL,
    "val_cfg": MEASUREMENT,
    "test_dataloader": MEASUREMENT,
    "test_evaluator": MEASUREMENT,
    "test_cfg": MEASUREMENT,
}
# what ``--resume`` may change besides places, environment and measurements
RESUMABLE = (
    "averaging.start",  # until it starts, there is no average
    "averaging.bn",
    "averaging.parameters",
    "param_scheduler.end",
    "param_scheduler.*.end",
    "custom_hooks",
    "custom_imports",
    "**.priority",
    "train_cfg.max_rounds",
    "train_cfg.max_norm_ratio",
    "train_cfg.type",
    "train_cfg.val_*",
    "load_from",
    "model.weights",
    "train_dataloader.partition",  # clients have a checksum
)
FIXED = "channels_last"  # the order of the numbers in a checkpoint's vectors


def find_role(key: str) -> Role | None:
    """The role of a key; None for what no pattern covers, such as a user's own variable."""
    return _find_role(tuple(key.split(".")))


def role(key: str) -> Role:
    """The role of a key; whatever no pattern covers may matter and belongs to the method."""
    return find_role(key) or METHOD


def select(config: Mapping[str, Any], *roles: Role, resumed: bool = False) -> dict[str, Any]:
    """The values of a config by key, ``{"a.b.c": value}``.

    A list is one value unless it holds dicts, which are counted: ``transforms.0.type``.

    Args:
        roles: of the keys that are wanted; none: all.
        resumed: leave out what a resumed run may change.
    """
    values = {}
    for path, value in _leaves(config, ()):
        if roles and _role(path) not in roles:
            continue
        if resumed and _may_change(path):
            continue
        values[".".join(path)] = list(value) if isinstance(value, tuple) else value
    return values


def keep(config: Mapping[str, Any], *roles: Role) -> dict[str, Any]:
    """The config with the keys of some roles only, as nested as it is."""
    return _kept(config, (), roles)


def _kept(value: Any, path: tuple[str, ...], roles: Sequence[Role]) -> Any:
    if isinstance(value, Mapping) and value:
        parts = {}
        for key, part in value.items():
            place = (*path, str(key))
            if any(_role(leaf) in roles for leaf, _ in _leaves(part, place)):
                parts[key] = _kept(part, place, roles)
        return parts
    if _has_dicts(value):
        return [_kept(part, (*path, str(number)), roles) for number, part in enumerate(value)]
    return value


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value that holds no others, with its key in parts."""
    if isinstance(value, Mapping) and (value or not path):
        parts = value.items()
    elif _has_dicts(value):
        parts = enumerate(value)
    else:
        yield path, value
        return
    for key, part in parts:
        yield from _leaves(part, (*path, str(key)))


def _has_dicts(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(part, Mapping) for part in value)


@cache
def _find_role(path: tuple[str, ...]) -> Role | None:
    for pattern, role in PATTERNS.items():
        if _covers(tuple(pattern.split(".")), path):
            return role
    return None


def _role(path: tuple[str, ...]) -> Role:
    return _find_role(path) or METHOD


@cache
def _may_change(path: tuple[str, ...]) -> bool:
    """True if a resumed run may have another value of the key."""
    if path[0] == FIXED:
        return False
    if _find_role(path) in (PLACE, ENVIRONMENT, MEASUREMENT, None):
        return True
    return any(_covers(tuple(pattern.split(".")), path) for pattern in RESUMABLE)


def _covers(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    if pattern[0] == "**":
        return any(_covers(pattern[1:], path[start:]) for start in range(len(path)))
    if len(pattern) > len(path):
        return False
    return all(fnmatchcase(name, glob) for name, glob in zip(path, pattern, strict=False))
