"""A run's recorded config, built without executing or importing anything that it names.

A config file is a program; what a run recorded of it is data, and may come from anyone. Of that,
only what an evaluation needs is built, and only classes by names that the suite's registries know.
"""

import copy
import functools
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.registry import Registry
from mmengine.registry import registry as registry_module

import fedseg.registry
from fedseg.checks import walk
from fedseg.cli import NO_CHECKPOINT
from fedseg.config.check import complete_config, drop_weights, trains_clients
from fedseg.config.layers import errors_name_their_source
from fedseg.errors import DEBUG, ConfigError, DataError, UserError, is_system_error
from fedseg.files import own_path, sha256
from fedseg.runner.checkpoint import CHECKPOINTS, checkpoints
from fedseg.runner.experiment import Options, override
from fedseg.runs.config import CONFIG_FILE, recorded_config
from fedseg.runs.schema import FILE_NAME, read_results_file
from fedseg.trust import (
    LIBRARIES,
    MMSEG,
    Trust,
    how_to_trust,
    import_trusted,
    is_of_mmseg,
    modules_named,
)

# Hooks, trackers, launchers and whatever else MMEngine would build of a config are left out.
EVALUATED = (
    *("model", "train_cfg", "averaging", "personal", "dtype", "device"),
    "compression",
    "privacy",
    *("val_dataloader", "val_evaluator", "val_cfg", "test_dataloader", "test_evaluator"),
    *("test_cfg", "algorithm", "optim_wrapper", "client_sampler", "randomness", "channels_last"),
)
# What training a client needs besides.
TRAINED = ("train_dataloader", "param_scheduler", "local_loss")
# Whose registered classes may be built besides the suite's own: layers, optimizers, schedules.
OWNERS = ("fedseg", "torch.nn", "torch.optim", "mmcv.cnn", "mmengine.optim.scheduler")
DOMAIN = re.compile(r"\w[\w.-]*")  # it names a folder of pictures
_CLOSED: ContextVar[bool] = ContextVar("registries are closed", default=False)


@contextmanager
def recorded(
    folder: Path,
    work_dir: Path,
    options: Options = (),
    trust: Trust = (),
    trained: bool = False,
) -> Iterator[tuple[Config, Config]]:
    """The config of a run, while it may be evaluated: what is built of it, and all of it.

    Args:
        folder, options: see :func:`read_recorded`.
        trust: code that is executed, of which the config may name the classes that it registers;
            see :func:`fedseg.trust.import_trusted`.
        trained: clients are to be trained, or their data read.
    """
    config = read_recorded(folder, options)
    trusted = import_trusted(trust, modules_named(config), folder)
    try:
        with errors_name_their_source(config), closed_registries():
            yield evaluated(config, work_dir, trusted, TRAINED if trained else ()), config
    except UserError:
        raise
    except Exception as error:  # any value may be of any kind
        if is_system_error(error):
            raise
        kind = type(error).__name__
        raise DataError(
            f"{config.filename}: cannot be evaluated: {kind}: {error} ({DEBUG}=1 shows where)"
        ) from error


def newest_checkpoint(folder: Path) -> tuple[int, Path]:
    """(round, path) of a run's newest checkpoint."""
    saved = checkpoints(own_path(folder, CHECKPOINTS))
    if not saved:
        raise DataError(f"{folder / CHECKPOINTS}: {NO_CHECKPOINT}")
    own_path(folder, f"{CHECKPOINTS}/{saved[-1][1].name}")
    return saved[-1]


def read_recorded(folder: Path, options: Options = ()) -> Config:
    """The complete config that a run recorded, as values; nothing is built.

    ``options`` are overrides.
    """
    path, values = folder / CONFIG_FILE, recorded_config(folder)
    with suppress(DataError):  # not finished, or told by what reads the results
        noted = read_results_file(own_path(folder, FILE_NAME)).config_json_sha256
        if noted not in (None, sha256(path)):
            warnings.warn(
                f"{path}: was changed, so this is not the run of {FILE_NAME}", stacklevel=2
            )
    try:
        config = override(Config(values, filename=str(path)), options=options)
        return complete_config(config, recorded=values.keys())
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    except Exception as error:
        raise DataError(f"{path}: is not the config of a run ({error!r})") from error


def evaluated(
    config: Config, work_dir: Path, trusted: Collection[str] = (), besides: Collection[str] = ()
) -> Config:
    """The keys of a recorded config that an evaluation needs, as a copy.

    Args:
        trusted: modules whose registered classes are allowed besides.
        besides: more keys that are needed.
    """
    besides = (*besides, *(("train_dataloader",) if trains_clients(config, "test") else ()))
    values = {key: copy.deepcopy(config[key]) for key in (*EVALUATED, *besides) if key in config}
    needed = Config(values, filename=config.filename)
    drop_weights(needed.model)  # the checkpoint has all of them
    _check_model(needed.model, "model")
    allowed = _allowed_names(trusted)
    for key, value in needed.items():
        for field, kind in _unknown_types(value, key, allowed):
            named = [*modules_named(config), *([MMSEG] if is_of_mmseg(kind) else [])]
            advice = how_to_trust(Path(config.filename).parent, named, trusted)
            raise ConfigError(f"{field}: {kind!r} is not a class of fedseg: {advice}")
    for key in ("val_dataloader", "test_dataloader"):
        for domain in needed.get(key) or {}:
            if not DOMAIN.fullmatch(domain):
                raise ConfigError(f"{key}: {domain!r} is not a domain")
    needed["work_dir"] = str(work_dir)
    needed.setdefault("train_dataloader", {})  # a runner asks for it
    needed["experiment_name"] = str(config.get("experiment_name", "run"))
    return needed


@contextmanager
def closed_registries() -> Iterator[None]:
    """Within it, registries give what is registered by its name, and import nothing for it.

    MMEngine's take any name with or without dots for an import path, wherever it stands: a layer of
    a library asks for ``norm_layer`` or ``padding_mode`` in this way. Other threads do not notice.
    """
    _make_registries_closable()
    before = _CLOSED.set(True)
    try:
        yield
    finally:
        _CLOSED.reset(before)


@functools.cache
def _make_registries_closable() -> None:
    get, from_string = Registry.get, registry_module.get_object_from_string

    def get_registered(self: Registry, key: str) -> Any:
        if _CLOSED.get() and isinstance(key, str) and "." in key:
            raise ConfigError(f"{key!r} is an import path: a recorded config has names only")
        return get(self, key)

    def import_if_open(name: str) -> Any:
        return None if _CLOSED.get() else from_string(name)

    Registry.get = get_registered
    registry_module.get_object_from_string = import_if_open


def _allowed_names(trusted: Collection[str]) -> set[str]:
    """Names that ``type`` may have."""
    from fedseg.datasets.mmsegmentation import is_source  # its import takes seconds

    owners = tuple(f"{module}." for module in (*OWNERS, *trusted))
    allowed = {*LIBRARIES, "norm", "value"}  # of optim_wrapper.clip_grad
    for registry in vars(fedseg.registry).values():
        if isinstance(registry, Registry):
            registry.import_from_location()
        while isinstance(registry, Registry):
            for name, cls in registry.module_dict.items():
                owner = f"{getattr(cls, '__module__', '')}."
                if owner.startswith(owners) or is_source(cls):
                    allowed.add(name)
            registry = registry.parent
    return allowed


def _unknown_types(value: Any, field: str, allowed: Collection[str]) -> Iterator[tuple[str, Any]]:
    """(field, value) of each ``type`` that is not allowed, wherever it stands."""
    for place, part in walk(value, field):
        if not isinstance(part, Mapping):
            continue
        if "_scope_" in part:
            raise ConfigError(f"{place}._scope_: is not allowed in a recorded config")
        kind = part.get("type", "")
        if kind and not (isinstance(kind, str) and (kind in allowed or _is_transform(kind))):
            yield f"{place}.type", kind


def _is_transform(name: str) -> bool:
    """True if albumentations has a transform of this name."""
    from fedseg.datasets.transforms import is_foreign_transform  # imports for half a second

    return is_foreign_transform(name)


def _check_model(value: Any, field: str) -> None:
    """Raise ConfigError for a file or an address in a model without its initial weights."""
    for place, part in walk(value, field):
        if isinstance(part, str) and re.search(r"[:/\\]", part):
            raise ConfigError(f"{place}: {part!r} is a file or URL, not an option")
