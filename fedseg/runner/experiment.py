"""From a config file to a finished run: what the command lines share."""

import ast
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mmengine.config import Config

from fedseg.checks import walk
from fedseg.config.arguments import check_value
from fedseg.config.check import complete_config, drop_weights, import_modules
from fedseg.config.components import TRAIN, VAL, check_roots
from fedseg.config.compose import COMPOSITION_KEYS, compose, make_importable, setting_file
from fedseg.config.layers import errors_name_their_source, get, layers_of, read_file, set_values
from fedseg.errors import ConfigError
from fedseg.models.network_options import read_network

# overrides of config fields: by key, or KEY=VALUE
Options = Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | str
# values of options that other languages write otherwise -> as Python writes them
NAMED_VALUES = {"true": "True", "false": "False", "none": "None", "null": "None"}
# what --tracker takes, which is the name of a package, too -> MMEngine's backend
TRACKERS = {
    "tensorboard": "TensorboardVisBackend",
    "wandb": "WandbVisBackend",
    "mlflow": "MLflowVisBackend",
}
OPENINGS = ("[", "(", "{", "dict(", "'", '"')  # with which a list, dict or quoted text begins


def load_config(
    path: str | Path,
    methods: Sequence[str] | str = (),
    work_dir: str | Path | None = None,
    options: Options = (),
    seed: int | None = None,
    amp: bool = False,
    resume: bool = False,
    workers: int | str | None = None,
    overwrite: bool = False,
    trackers: Sequence[str] = (),
) -> Config:
    """Read a config file, compose its methods and apply what a command line changes.

    The config's folder is importable, so that ``custom_imports`` finds modules beside the config,
    and so is the folder of a method that is named by its path.

    Args:
        path: the config file, a setting or a config that inherits one; or the name of one of the
            suite's, such as ``idda_rainy``.
        methods: names or files of methods to merge over it, in this order, or a single one; see
            :mod:`fedseg.config.compose`.
        work_dir: where the run writes; default ``work_dirs/<experiment>/seed<seed>``.
        options: ``KEY=VALUE`` overrides of existing or new fields, or a dict of them.
        seed: replaces ``randomness.seed``.
        amp: sets ``train_cfg.amp``.
        resume: sets ``resume``: continue from the newest checkpoint of the work dir.
        overwrite: sets ``overwrite``: delete the run in the work dir.
        trackers: names of ``TRACKERS``, such as ``"wandb"``: what logs the rounds, with the options
            that ``visualizer.vis_backends`` has for it; none: as the config says.
        workers: train on so many workers with Ray; ``"auto"``: one for each GPU of this machine, in
            this process if it has none.
    """
    path = setting_file(path)
    if isinstance(methods, str):
        methods = [methods]
    make_importable(path.resolve().parent)
    config = compose(path, methods)
    override(config, work_dir, options, seed, amp, resume, workers, overwrite, trackers)
    network = get(config, "model.network")
    if isinstance(network, str):
        _take_network(config, network, path)
    return config


def _take_network(config: Config, name: str, path: Path) -> None:
    """Replace the name of a config of MMSegmentation by its network, and warn of what is left out.

    Args:
        config: where ``model.network`` is the name.
        path: the config's file.
    """
    network = read_network(_read_mmseg_model(name, path), name)
    left_out = list(network.left_out)
    if config.model.get("weights") is None:
        left_out += _find_weights(network.config)
    drop_weights(network.config)
    config.model["network"] = network.config
    if network.data_preprocessor is not None and not _sets_normalization(config):
        config.model["data_preprocessor"] = network.data_preprocessor
    if left_out:
        warnings.warn(
            f"model.network: of {name} these do not apply here: {', '.join(left_out)}; set "
            "model.loss, model.aux_weight, model.weights and the data set's pipeline",
            stacklevel=3,
        )


def _read_mmseg_model(name: str, path: Path) -> dict[str, Any]:
    """The model of a config of MMSegmentation.

    Args:
        name: its path, also from the folder of ``path``, or ``mmseg::FOLDER/FILE.py``.
        path: of the config that names it.
    """
    shipped = Path(find_spec("mmseg").origin).parent / ".mim" / "configs"
    places = [Path(name), path.parent / name, shipped / name.removeprefix("mmseg::")]
    try:
        place = next(path for path in places if path.is_file())
        return read_file(place)["model"]
    except (ConfigError, LookupError, StopIteration) as error:
        forms = "a path, or mmseg::FOLDER/FILE.py of the installed MMSegmentation"
        fault = f"{name} is no config with a model ({forms}) {error}"
        raise ConfigError(f"model.network: {fault}") from error


def _find_weights(network: Mapping[str, Any]) -> list[str]:
    """The fields that name initial weights in the config of a network."""
    return [
        field
        for field, value in walk(network)
        if field.rpartition(".")[2] in ("pretrained", "checkpoint") and isinstance(value, str)
    ]


def _sets_normalization(config: Config) -> bool:
    """True if a config sets ``model.data_preprocessor`` where it sets its network, or above."""
    layers = [layer.values for layer in layers_of(config)]
    networks = [number for number, values in enumerate(layers) if get(values, "model.network")]
    above = layers[networks[-1] :] if networks else layers
    return any(get(values, "model.data_preprocessor") for values in above)


def override(
    config: Config,
    work_dir: str | Path | None = None,
    options: Options = (),
    seed: int | None = None,
    amp: bool = False,
    resume: bool = False,
    workers: int | str | None = None,
    overwrite: bool = False,
    trackers: Sequence[str] = (),
) -> Config:
    """Apply what a command line changes, in place; arguments and errors as :func:`load_config`."""
    override_fields(config, options)
    with errors_name_their_source(config):
        check_value("experiment_name", config.get("experiment_name", "run"), str)
    if seed is not None:
        set_values(config, "--seed", {"randomness.seed": seed})
    if amp:
        set_values(config, "--amp", {"train_cfg.amp": True})
    if work_dir is None and config.get("work_dir") is None:
        run_seed = get(config, "randomness.seed") or 0
        config.work_dir = str(Path("work_dirs") / config.experiment_name / f"seed{run_seed}")
    elif work_dir is not None:
        set_values(config, "--work-dir", {"work_dir": str(work_dir)})
    if workers is not None:
        _set_workers(config, workers)
    if trackers:
        _set_trackers(config, trackers)
    if resume:
        config["resume"] = True
    if overwrite:
        config["overwrite"] = True
    return config


def _set_workers(config: Config, workers: int | str) -> None:
    """Apply ``--workers``, beside the executor's other options."""
    if workers == "auto":
        if get(config, "executor.address") is not None:
            raise ConfigError(
                "--workers: must be a number if executor.address is set, not 'auto', which counts "
                "the GPUs of this machine"
            )
        workers = _count_gpus()
        if workers == 0:
            set_values(config, "--workers", {"executor": None})
            return
    if config.get("executor") is None:
        config["executor"] = {}
    values = {"executor.type": "RayExecutor", "executor.num_workers": workers}
    set_values(config, "--workers", values)


def _set_trackers(config: Config, names: Sequence[str]) -> None:
    """Apply ``--tracker``: these trackers, each with the options that the config has for it."""
    given = get(config, "visualizer.vis_backends") or ()
    check_value("visualizer.vis_backends", given, Sequence[Mapping])
    options = {backend.get("type"): backend for backend in given}
    backends = []
    for name in dict.fromkeys(names):
        if name not in TRACKERS:
            raise ConfigError(f"--tracker: unknown {name!r}; known: {', '.join(TRACKERS)}")
        if find_spec(name) is None:
            raise ConfigError(
                f"--tracker {name}: the package {name} is not installed: pip install {name}"
            )
        backend = TRACKERS[name]
        backends.append(options.get(backend, {"type": backend}))
    if config.get("visualizer") is None:
        config["visualizer"] = {}
    set_values(config, "--tracker", {"visualizer.vis_backends": backends})


def _count_gpus() -> int:
    import torch  # which takes seconds

    return torch.cuda.device_count()


def override_fields(config: Config, options: Options) -> None:
    """Apply ``--cfg-options`` in place; ConfigError if one is malformed or does not fit."""
    overrides: dict[str, Any] = {}
    for option in [options] if isinstance(options, str | Mapping) else options:
        if isinstance(option, Mapping):
            overrides.update(option)
            continue
        key, separator, text = option.partition("=")
        if not separator or not key:
            raise ConfigError(f"--cfg-options: {option!r} is not of the form KEY=VALUE")
        overrides[key] = _read_value(f"--cfg-options: {key}", text.strip())
    # those of the test first: the others then leave it as it is
    for key in sorted(overrides, key=lambda key: not key.startswith("test_")):
        if key.partition(".")[0] in COMPOSITION_KEYS:
            raise ConfigError(
                f"--cfg-options: {key}: would have no effect, the config is composed already: "
                "name methods with --with, and a setting as the config"
            )
        set_values(config, "--cfg-options", {key: overrides[key]})


def _read_value(field: str, text: str) -> Any:
    """The Python value that a text is, such as a number or a list of dicts; else the text itself.

    Raises:
        ConfigError: the text is almost a value, so it is not clear what is meant.
    """
    if text.lower() in NAMED_VALUES and text not in NAMED_VALUES.values():
        raise ConfigError(f"{field}: must be {NAMED_VALUES[text.lower()]}, not {text}")
    try:
        value = ast.literal_eval(_DictCalls().visit(ast.parse(text, mode="eval")))
    except (RecursionError, SyntaxError, TypeError, ValueError) as error:
        if text.startswith(OPENINGS):
            form = "a Python value such as [1, 2], ['a', 'b'] or dict(type='SGD', lr=0.1)"
            raise ConfigError(f"{field}: must be {form}, not {text}") from error
        return text
    if isinstance(value, tuple) and not text.startswith("("):
        raise ConfigError(f"{field}: a list needs brackets: [{text}]")
    return value


class _DictCalls(ast.NodeTransformer):
    """Replaces ``dict(a=1)`` in an expression, as configs write it, by ``{"a": 1}``, a literal."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        names = [keyword.arg for keyword in node.keywords]
        is_dict = isinstance(node.func, ast.Name) and node.func.id == "dict"
        if not is_dict or node.args or None in names:  # dict(...), dict(**options)
            return node
        values = [keyword.value for keyword in node.keywords]
        return ast.Dict([ast.Constant(name) for name in names], values)


def prepare_config(config: Config, *loaders: str) -> Config:
    """Return a complete copy of a config, once it and the data's folders are checked.

    The modules of its ``custom_imports`` are imported. Only what takes no import of torch is
    checked: keys, and the folders of the data. Types and arguments of components are checked where
    they are built.

    Args:
        loaders: whose data sets must be there, as in :data:`fedseg.config.components.LOADERS`.
    """
    with errors_name_their_source(config):
        complete = complete_config(config)
        check_roots(dict(complete.items()), *loaders)
        if complete.get("custom_imports"):
            import_modules(complete.custom_imports)
    return complete


def train(config: Config, dry_run: bool = False, quiet: bool = False) -> Path:
    """Run a config, or print its plan; returns the work dir. Ctrl-C raises ``Interrupted``.

    ``quiet`` shows no progress and no warnings of rounds, which are in the log file all the same.
    """
    config = prepare_config(config, TRAIN, VAL)
    work_dir = Path(config.work_dir)
    with errors_name_their_source(config):
        from fedseg.runner.runner import FederatedRunner  # imports torch, which takes seconds

        if dry_run:
            from fedseg.runner.plan import make_plan, print_plan

            with tempfile.TemporaryDirectory() as folder:  # nothing is written to the run's own
                config.work_dir = folder
                print_plan(make_plan(FederatedRunner.from_complete(config)))
            return work_dir
        runner = FederatedRunner.from_complete(config)
        if quiet:
            runner.mute_console()
        runner.train()
    return work_dir
