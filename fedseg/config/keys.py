"""The keys of a config and their roles: the one table that digests, resuming and boards filter.

- ``identity`` tells apart the runs of one experiment;
- ``method`` is what a paper proposes: the rule of training and its hyper-parameters;
- ``protocol`` must be equal for results to be compared: data, network, sizes, rounds, precision;
- ``measurement`` says what is measured besides, and changes no figure;
- ``environment`` is of the machine: where data lie, workers, devices; it changes last digits only;
- ``place`` is where a run writes and what it is called.

A key is written with dots, ``train_dataloader.transforms.0.type``.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple, get_args

Role = Literal["identity", "method", "protocol", "measurement", "environment", "place"]
ROLES: tuple[Role, ...] = get_args(Role)
IDENTITY, METHOD, PROTOCOL, MEASUREMENT, ENVIRONMENT, PLACE = ROLES


class Key(NamedTuple):
    """A row of the table.

    Attributes:
        pattern: a key; it covers what is below it, too. ``*`` is any one name or number, ``**`` in
            front any number of them.
        may_change: between a run and its continuation by ``--resume``.
    """

    pattern: str
    role: Role
    may_change: bool = False


# of the rows that cover a key the first holds
_ROWS = (  # patterns, and the rest of a key
    ("work_dir resume overwrite experiment_name setting methods log_level visualizer", PLACE, True),
    ("**.data_root **.dataset.cache **.num_workers model.recompute_losses", ENVIRONMENT, True),
    ("**.prefetch_factor *_dataloader.timeout val_dataloader.*.timeout", ENVIRONMENT, True),
    ("executor device env_cfg default_hooks", ENVIRONMENT, True),
    ("train_cfg.val_interval train_cfg.val_shares", ENVIRONMENT, True),
    ("train_cfg.hook_interval", ENVIRONMENT, True),
    ("channels_last", ENVIRONMENT),
    ("randomness.seed", IDENTITY),
    ("randomness", ENVIRONMENT, True),
    # the method
    ("averaging.start", METHOD, True),  # until it starts, there is no average
    ("averaging.bn averaging.parameters **.priority", METHOD, True),
    ("algorithm local_loss averaging", METHOD),
    ("personal attack compression privacy robust", METHOD),
    ("optim_wrapper", METHOD),
    ("param_scheduler.end param_scheduler.*.end", METHOD, True),
    ("param_scheduler", METHOD),
    ("custom_hooks custom_imports default_scope", METHOD, True),
    ("model.freeze model.lora model.stochastic_depth model.projection", METHOD),
    # the protocol
    ("train_cfg.max_rounds", PROTOCOL, True),
    ("train_cfg.local_epochs train_cfg.local_steps train_cfg.amp", PROTOCOL),
    ("train_cfg.val_last_rounds train_cfg.val_last_interval", PROTOCOL, True),
    ("train_cfg", METHOD, True),
    ("model.weights", PROTOCOL, True),
    ("model dtype", PROTOCOL),
    ("load_from", PROTOCOL, True),
    ("client_sampler", PROTOCOL),
    ("train_dataloader.type", METHOD),
    ("train_dataloader.batch_size train_dataloader.shuffle", PROTOCOL),
    ("train_dataloader.drop_last train_dataloader.transforms", PROTOCOL),
    ("train_dataloader.dataset.style.type", METHOD),
    ("train_dataloader.dataset.style train_dataloader.dataset.pipeline", PROTOCOL),
    ("train_dataloader.dataset", PROTOCOL),
    ("train_dataloader.partition.seed", IDENTITY, True),
    ("train_dataloader.partition", PROTOCOL, True),  # clients have a checksum
    ("train_dataloader", METHOD, True),
    ("val_dataloader.*.type val_dataloader.*.optional", MEASUREMENT, True),
    ("val_dataloader.*.final_only", MEASUREMENT, True),
    ("val_dataloader val_evaluator", PROTOCOL),
    ("val_cfg test_dataloader test_evaluator test_cfg", MEASUREMENT, True),
)
TABLE = tuple(Key(pattern, *rest) for patterns, *rest in _ROWS for pattern in patterns.split())


def row(key: str) -> Key | None:
    """The row that covers a key; None for what no row knows, such as a user's own variable."""
    return _row(tuple(key.split(".")))


def role(key: str) -> Role:
    """The role of a key; whatever no row covers may matter and belongs to the method."""
    return _role(tuple(key.split(".")))


def select(config: Mapping[str, Any], *roles: Role, resumed: bool = False) -> dict[str, Any]:
    """The values of a config by key, ``{"a.b.c": value}``.

    A list is one value unless it holds dicts, which are counted: ``transforms.0.type``.

    Args:
        roles: of the keys that are wanted; none: all.
        resumed: leave out what a resumed run may change.
    """
    return {
        ".".join(path): list(value) if isinstance(value, tuple) else value
        for path, value in _leaves(config, ())
        if (not roles or _role(path) in roles)
        and not (resumed and ((key := _row(path)) is None or key.may_change))
    }


def keep(config: Mapping[str, Any], *roles: Role) -> dict[str, Any]:
    """The config with the keys of some roles only, as nested as it is."""
    return _kept(config, (), roles)


def _kept(value: Any, path: tuple[str, ...], roles: Sequence[Role]) -> Any:
    if isinstance(value, Mapping) and value:
        inner = {key: (v, (*path, str(key))) for key, v in value.items()}
        return {
            key: _kept(v, below, roles)
            for key, (v, below) in inner.items()
            if any(_role(leaf) in roles for leaf, _ in _leaves(v, below))
        }
    if _has_dicts(value):
        return [_kept(one, (*path, str(number)), roles) for number, one in enumerate(value)]
    return value


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping) and (value or not path):
        inner = value.items()
    elif _has_dicts(value):
        inner = enumerate(value)
    else:
        yield path, value
        return
    for key, one in inner:
        yield from _leaves(one, (*path, str(key)))


def _has_dicts(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(one, Mapping) for one in value)


@cache
def _role(path: tuple[str, ...]) -> Role:
    row = _row(path)
    return METHOD if row is None else row.role


@cache
def _row(path: tuple[str, ...]) -> Key | None:
    return next((one for one in TABLE if _covers(tuple(one.pattern.split(".")), path)), None)


def _covers(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    if pattern[0] == "**":
        return any(_covers(pattern[1:], path[start:]) for start in range(len(path)))
    return len(pattern) <= len(path) and all(
        wanted in ("*", name) for wanted, name in zip(pattern, path, strict=False)
    )
