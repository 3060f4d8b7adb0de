"""The federated runner: MMEngine's Runner with clients, a server and rounds."""

import copy
import json
import shlex
import shutil
import sys
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.logging import MMLogger
from mmengine.runner import Runner
from torch import Tensor, nn

from fedseg import cli
from fedseg.core.algorithm import Algorithm
from fedseg.core.batchnorm import batchnorm_layers
from fedseg.core.flat import FlatModel
from fedseg.core.local_loss import LocalLoss
from fedseg.core.seeds import seed_for
from fedseg.core.server import Server
from fedseg.engine.executor import Executor
from fedseg.engine.sampler import ClientSampler
from fedseg.errors import ConfigError, Interrupted
from fedseg.evaluation.domains import reestimate_statistics
from fedseg.hooks.averaging import ModelAverage
from fedseg.hooks.batchnorm import BatchNormPolicy
from fedseg.hooks.trackers import build_trackers, build_visualizer, require_packages
from fedseg.loaders.partitioned import PartitionedData
from fedseg.optim import build_local_optimizer
from fedseg.registry import (
    ALGORITHMS,
    CLIENT_DATA,
    EXECUTORS,
    HOOKS,
    LOCAL_LOSSES,
    LOOPS,
    MODELS,
    PARAM_SCHEDULERS,
    RUNNERS,
    SAMPLERS,
    build,
    did_you_mean,
)
from fedseg.runner.checkpoint import (
    checkpoint_path,
    checkpoints,
    latest_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from fedseg.runner.config import complete_config
from fedseg.runner.cuda_graph import choose_step
from fedseg.runner.interrupt import InterruptGuard
from fedseg.runner.state_store import StateStore
from fedseg.runs.history import History
from fedseg.runs.results import config_digest, write_results

DEFAULT_HOOKS = {
    "checkpoint": {"type": "FederatedCheckpointHook"},
    "progress": {"type": "ProgressHook"},
    "trackers": {"type": "TrackersHook"},
    "client_accuracy": {"type": "ClientAccuracyHook"},
    "pictures": {"type": "PicturesHook"},
}
BATCH_KEYS = ("type", "batch_size", "shuffle", "drop_last", "transforms")
# what a run writes into its work dir, and a new one there moves aside
OUTPUTS = ("history.jsonl", "results.json", "checkpoints", "state", "pictures", "test")
OUTPUTS += ("tensorboard", "wandb", "mlflow", "vis_data")


@RUNNERS.register_module()
class FederatedRunner(Runner):
    """Runs federated training, and evaluation by domain, from a config.

    Use :meth:`from_cfg`, then :meth:`train` or :meth:`test`. Hooks find here what they may need:

    Attributes:
        server: the global model ``server.w`` and the algorithm's vectors.
        flat: the model as vectors.
        data: the clients' training data.
        store: the clients' states.
        algorithm, client_sampler, executor, optim_wrapper: as configured.
        averaging, batchnorm: their hooks, or None.
        round: the present round, from 1.
        max_rounds: rounds of the run.
        visualizer: while rounds are trained, what a hook adds to it reaches the trackers.
        quiet: whether the terminal shows nothing but errors; see :meth:`mute_console`.
    """

    quiet = False

    @classmethod
    def from_cfg(cls, cfg: Config) -> "FederatedRunner":
        """Build a runner.

        Raises:
            ConfigError: the config names something unknown, or asks for what has no meaning.
        """
        cfg = complete_config(cfg if isinstance(cfg, Config) else Config(dict(cfg)))
        if Path(cfg.work_dir).is_file():
            raise ConfigError(f"work_dir: {cfg.work_dir} is a file; name a folder")
        name = cfg.get("experiment_name") or Path(cfg.filename or "run").stem
        # two runs of one process in one second must not share MMEngine's global instances
        cfg["experiment_name"] = f"{name}_{uuid.uuid4().hex[:8]}"
        return super().from_cfg(cfg)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.name = kwargs["experiment_name"].rpartition("_")[0]
        self.interrupt = InterruptGuard()
        self.stores: dict[str, StateStore] = {}
        self.round = 0
        self.averaging: ModelAverage | None = None
        self.batchnorm: BatchNormPolicy | None = None
        self.flat: FlatModel | None = None
        self.client_sizes: dict[str, int] = {}
        self.domain_clients: dict[str, list[str]] = {}
        self.seconds_before = 0.0
        self._estimate: tuple[int, Tensor] | None = None  # round, re-estimated buffers
        super().__init__(*args, **kwargs)
        self.history = History(Path(self.work_dir) / "history.jsonl")

    # ---------------------------------------------------------------- MMEngine, quieter

    def build_logger(self, log_level: str = "WARNING", **kwargs: Any) -> MMLogger:
        """Everything goes to the log file; the terminal sees warnings (or ``log_level``)."""
        logger = super().build_logger(log_level="INFO", **kwargs)
        for handler in logger.handlers:
            if not hasattr(handler, "baseFilename"):
                handler.setLevel("WARNING" if log_level == "INFO" else log_level)
                handler.addFilter(lambda r: "The prefix is not set" not in r.getMessage())
        return logger

    def dump_config(self) -> None:
        """Nothing yet: MMEngine asks for it before an earlier run's copy is out of the way."""

    def _config_copy(self) -> Path:
        return Path(self.work_dir) / Path(self.cfg.filename or "config.py").name

    def _write_config(self) -> None:
        """Write the config into the work dir, under the run's own name."""
        config = copy.deepcopy(self.cfg)
        config["experiment_name"] = self.name
        config.dump(self._config_copy())

    def _log_env(self, env_cfg: dict) -> None:
        self.logger.info(f"torch {torch.__version__}, seed {self.seed}")
        self.config_text = self.cfg.pretty_text  # slow to make: once, also for the checkpoints
        self.logger.info(f"Config:\n{self.config_text}")

    def build_visualizer(self, visualizer: Any = None) -> Any:
        """Trackers are built, not started: MMEngine would start them for a test or a plan too."""
        self.trackers = build_trackers(visualizer, self.work_dir, self.name)
        return build_visualizer(visualizer, self.experiment_name)

    def mute_console(self) -> None:
        """Show nothing but errors on the terminal; the log file still has everything."""
        self.quiet = True
        for handler in self.logger.handlers:
            if not hasattr(handler, "baseFilename"):
                handler.setLevel("ERROR")

    @contextmanager
    def _logged_warnings(self) -> Iterator[None]:
        """Warnings go where the run's own go: to the log file, and to a terminal not hushed."""
        caught: list[warnings.WarningMessage] = []
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", UserWarning)
                yield
        finally:
            for warning in caught:
                self.logger.warning(str(warning.message))

    def build_model(self, model: Any) -> nn.Module:
        torch.manual_seed(seed_for(self.seed, "build"))
        model = build(MODELS, model, "model")
        if not isinstance(model, nn.Module):
            raise ConfigError(f"model: {type(model).__name__} is not a torch.nn.Module")
        return model.to(getattr(torch, self.cfg.get("dtype", "float32")))

    def wrap_model(self, model_wrapper_cfg: Any, model: nn.Module) -> nn.Module:
        model = super().wrap_model(model_wrapper_cfg, model)
        device = self.cfg.get("device")
        if device is None:
            return model
        if not isinstance(device, str | torch.device):
            raise ConfigError(f"device: must be a name such as 'cpu' or 'cuda:0', not {device!r}")
        try:
            return model.to(device)
        except (RuntimeError, AssertionError) as error:
            raise ConfigError(f"device: {device!r} cannot be used: {error}") from error

    def call_hook(self, fn_name: str, **kwargs: Any) -> None:
        """Call a stage of every hook that has it (MMEngine's own loses tracebacks)."""
        for hook in self._hooks:
            stage = getattr(hook, fn_name, None)
            if stage is not None:
                stage(self, **kwargs)

    def register_hooks(self, default_hooks: Any = None, custom_hooks: Any = None) -> None:
        for name in default_hooks or {}:
            if name not in DEFAULT_HOOKS:
                raise ConfigError(
                    f"default_hooks.{name}: unknown{did_you_mean(name, DEFAULT_HOOKS)}; known: "
                    f"{', '.join(DEFAULT_HOOKS)}. Hooks of your own go into custom_hooks"
                )
        for name, config in {**DEFAULT_HOOKS, **(default_hooks or {})}.items():
            if config is not None:
                self._add_hook(config, f"default_hooks.{name}", Hook)
        self.averaging = self._add_hook(self.cfg.get("averaging"), "averaging", ModelAverage)
        self.batchnorm = self._add_hook(self.cfg.get("batchnorm"), "batchnorm", BatchNormPolicy)
        for number, config in enumerate(custom_hooks or []):
            self._add_hook(config, f"custom_hooks[{number}]", Hook)

    def _add_hook(self, config: Any, field: str, kind: type) -> Any:
        if config is None:
            return None
        config = dict(config) if isinstance(config, Mapping) else config
        priority = config.pop("priority", None) if isinstance(config, dict) else None
        hook = build(HOOKS, config, field)
        if not isinstance(hook, kind):
            raise ConfigError(f"{field}.type: {type(hook).__name__} is not a {kind.__name__}")
        self.register_hook(hook, priority)
        return hook

    # ---------------------------------------------------------------- what a run consists of

    @property
    def max_rounds(self) -> int:
        return self.cfg.train_cfg.max_rounds

    def autocast(self) -> Any:
        """The context of every forward pass: bfloat16 if ``train_cfg.amp``."""
        enabled = bool(self.cfg.train_cfg.get("amp", False))
        return torch.autocast(self.flat.w.device.type, dtype=torch.bfloat16, enabled=enabled)

    def make_step(self, choice: bool | str) -> Any:
        """What gives a trainer its local steps, by ``train_cfg.cuda_graph``."""
        return lambda trainer: choose_step(trainer, choice, self.logger.warning)

    def register_store(self, name: str, store: StateStore) -> None:
        """Have checkpoints cover a state store."""
        self.stores[name] = store

    def _build_model_vectors(self) -> None:
        torch.manual_seed(seed_for(self.seed, "init"))
        self._init_model_weights()
        self.flat = FlatModel(self.model, self.cfg.get("channels_last", True))
        if self._load_from is not None:
            self._load_weights(self._load_from)
        options = self.cfg.get("state_store") or {}
        if not isinstance(options, Mapping) or set(options) - {"keep"}:
            raise ConfigError(
                f"state_store: must be dict(keep='memory') or dict(keep='disk'), not {options!r}"
            )
        self.store = StateStore(Path(self.work_dir) / "state" / "clients", **options)
        self.register_store("clients", self.store)

    def _load_weights(self, path: str | Path) -> None:
        if not isinstance(path, str | Path):
            raise ConfigError(f"load_from: must be a checkpoint's path, not {path!r}")
        try:
            self.flat.load_state_dict(load_checkpoint(path)["state_dict"])
        except RuntimeError as error:
            raise ConfigError(f"load_from: {path} does not fit the model: {error}") from error

    def build_federation(self) -> None:
        """Build everything that training needs, from data to hooks' state; trains nothing."""
        cfg = self.cfg
        require_packages(self.trackers)
        self._build_model_vectors()
        self.algorithm: Algorithm = build(ALGORITHMS, cfg.algorithm, "algorithm")
        if not isinstance(self.algorithm, Algorithm):
            raise ConfigError(f"algorithm.type: {cfg.algorithm['type']} is not an Algorithm")
        self.data = self._build_data(dict(self._train_dataloader))
        self.client_sizes = dict(zip(self.data.clients, self.data.sizes, strict=True))
        self.domain_clients = self._domain_clients()
        self.client_sampler: ClientSampler = build(SAMPLERS, cfg.client_sampler, "client_sampler")
        self.client_sampler.bind(self.data.clients, self.seed)
        self.client_sampler.participants(self.max_rounds)  # a list too short fails now, not then
        self.server = Server(self.flat, len(self.data.clients), self.algorithm.server_vectors)
        self.optim_wrapper = build_local_optimizer(self.optim_wrapper, self.flat)
        with self._logged_warnings():
            self.algorithm.check(self.optim_wrapper, self.flat)
        self.algorithm.bind(self.flat)
        self.local_loss = self._build_local_loss()
        if self.averaging is not None:
            self.averaging.bind(self.flat)
        self.executor: Executor = build(EXECUTORS, cfg.executor, "executor")
        parts = {"runner": self, "dataloader": self._train_dataloader}
        self._train_loop = build(LOOPS, dict(self._train_loop), "train_cfg", parts)
        self.param_schedulers = self._build_schedulers()
        self._val_loop = self._build_evaluation("val") if self._val_dataloader else None

    def _build_data(self, options: dict[str, Any]) -> PartitionedData:
        for key in ("dataset", "partition", "batch_size"):
            if key not in options:
                raise ConfigError(f"train_dataloader.{key}: is missing")
        train = self.cfg.train_cfg
        of_the_run = {
            "local_epochs": 1 if train.get("local_epochs") is None else train["local_epochs"],
            "local_steps": train.get("local_steps"),
            "drop_single": bool(batchnorm_layers(self.model)),
            "device": self.flat.w.device,
            "dtype": self.flat.w.dtype,
            "seed": self.seed,
        }
        data = build(
            CLIENT_DATA, {"type": "StreamingData", **options}, "train_dataloader", of_the_run
        )
        dropped = data.dropped()
        if dropped:
            self.logger.warning(
                f"{len(dropped)} clients (the first: {dropped[0]!r}) leave a last batch of one "
                "sample out of every local epoch, which BatchNorm cannot train on"
            )
        return data

    def _build_local_loss(self) -> LocalLoss:
        config = self.cfg.get("local_loss")
        if config is None:
            return LocalLoss()
        loss = build(LOCAL_LOSSES, config, "local_loss")
        if not isinstance(loss, LocalLoss):
            raise ConfigError(f"local_loss.type: {config['type']} is not a LocalLoss")
        loss.check(self.flat)
        return loss

    def _domain_clients(self) -> dict[str, list[str]]:
        domains = getattr(self.data.dataset, "domains", None)
        clients: dict[str, list[str]] = {}
        if domains is None:
            return clients
        for client, indices in self.data.indices.items():
            own = {domains[i] for i in indices}
            if len(own) == 1:
                clients.setdefault(own.pop(), []).append(client)
        return clients

    def _build_schedulers(self) -> list[Any]:
        if not self.param_schedulers:
            return []
        given = self.param_schedulers
        schedulers = []
        for number, config in enumerate([given] if isinstance(given, Mapping) else given):
            field = f"param_scheduler[{number}]"
            if not isinstance(config, Mapping):
                raise ConfigError(f"{field}: must be a dict with a type, not {config!r}")
            if not config.get("by_epoch", True) or config.get("convert_to_iter_based"):
                raise ConfigError(
                    f"{field}.by_epoch: must be True: the local learning rate is scheduled by "
                    "round, not by step, or it would decay from client to client"
                )
            options = {"end": self.max_rounds, **config}
            schedulers.append(build(PARAM_SCHEDULERS, options, field, optimizer=self.optim_wrapper))
        return schedulers

    def _build_evaluation(self, kind: str) -> Any:
        parts = {
            "runner": self,
            "dataloader": self.cfg[f"{kind}_dataloader"],
            "evaluator": self.cfg[f"{kind}_evaluator"],
        }
        return build(LOOPS, dict(self.cfg[f"{kind}_cfg"]), f"{kind}_cfg", parts)

    @property
    def val_loop(self) -> Any:
        """The evaluation loop, or None."""
        return self._val_loop

    # ---------------------------------------------------------------- train, test

    def train(self) -> nn.Module:
        """Train to the last round; the model then holds the global (or averaged) weights."""
        self.build_federation()
        self.begin = time.perf_counter()
        with self.interrupt:
            self.call_hook("before_run")
            self._resume_or_start()
            self._write_config()
            try:
                self.train_loop.run()
                if self.val_loop is not None and not self.val_loop.details:
                    self.val_loop.run()  # resumed after the last round: its details are needed
                w, buffers = self.evaluated_model()
            except Interrupted as stop:
                raise Interrupted(self.interrupt_message()) from stop
            with torch.no_grad():
                self.flat.w.copy_(w)
                self.flat.buffers.copy_(buffers)
                for name, counter in self.server.counters.items():
                    self.flat.counters[name].copy_(counter)
            self.results = write_results(self)
            self.call_hook("after_run")
        return self.model

    def test(self, checkpoint: str | Path, on_prediction: Any = None) -> dict[str, float]:
        """Evaluate a checkpoint on every test domain.

        Args:
            checkpoint: its file.
            on_prediction: see :class:`fedseg.evaluation.domains.DomainEvaluator`.
        """
        payload = load_checkpoint(checkpoint)
        self._build_model_vectors()
        self._load_weights(str(checkpoint))
        self.server = Server(self.flat, max(1, len(payload.get("clients", {}))))
        self.client_sizes = dict(payload.get("client_sizes", {}))
        self.domain_clients = dict(payload.get("domain_clients", {}))
        if self.batchnorm is not None:
            self.batchnorm.before_train(self)
            for client, state in payload.get("client_statistics", {}).items():
                self.store.stage(client, state)
            self.store.commit(payload["round"])
        averaged = payload.get("averaged_state_dict")
        if averaged is not None:
            self.flat.load_state_dict(averaged)
            self.server.w.copy_(self.flat.w)
            self.server.buffers.copy_(self.flat.buffers)
        self.averaging = None  # its result, not its history, is what is tested
        self._test_loop = self._build_evaluation("test")
        with self.interrupt:
            return self._test_loop.run(on_prediction)

    def _averaged(self, estimate: bool) -> tuple[Tensor, Tensor] | None:
        """The averaged model, if there is one; its statistics re-estimated where configured.

        Without ``estimate`` a checkpoint does not pay for an estimate that no evaluation needed.
        """
        averaged = self.averaging.evaluated(self) if self.averaging is not None else None
        if averaged is None or self.averaging.bn != "reestimate" or self.batchnorm is not None:
            return averaged
        if self._estimate is None or self._estimate[0] != self.round:
            if not estimate:
                return averaged
            self._estimate = (self.round, reestimate_statistics(self, *averaged))
        return averaged[0], self._estimate[1]

    def evaluated_model(self) -> tuple[Tensor, Tensor]:
        """(parameters, buffers) of the averaged model if there is one, else of the global one."""
        return self._averaged(estimate=True) or (self.server.w, self.server.buffers)

    def finish_round(self, record: dict[str, Any]) -> None:
        """Write a round's line."""
        self.history.append(record)

    @property
    def seconds(self) -> float:
        """Wall time of the run, earlier parts of a resumed one included."""
        return self.seconds_before + time.perf_counter() - self.begin

    # ---------------------------------------------------------------- checkpoints

    @property
    def checkpoint_folder(self) -> Path:
        return Path(self.work_dir) / "checkpoints"

    def checkpoint_payload(self) -> dict[str, Any]:
        """Everything that the run's future depends on, as tensors and plain values."""
        server = self.server
        payload = {
            "state_dict": self._plain(server.w, server.buffers, server.counters),
            "round": self.train_loop.round,
            "pending_record": self.train_loop.pending,
            "server_state": dict(server.state),
            "hooks": {self._hook_key(i): h.state_dict() for i, h in self._stateful_hooks()},
            "schedulers": [s.state_dict() for s in self.param_schedulers],
            "param_groups": [
                {k: v for k, v in group.items() if k != "params"}
                for group in self.optim_wrapper.optimizer.param_groups
            ],
            "stores": {name: store.flush() for name, store in self.stores.items()},
            "client_sizes": self.client_sizes,
            "domain_clients": self.domain_clients,
            "seconds": self.seconds,
            "meta": {
                "seed": self.seed,
                "config": self.config_text,
                "config_sha256": config_digest(self.cfg),
                "identity": self._identity(),
                "dataset_meta": _plain_meta(getattr(self.data.dataset, "metainfo", None)),
            },
        }
        if self.batchnorm is not None:  # small, and an old checkpoint's state files are deleted
            payload["client_statistics"] = {
                client: own
                for client in self.store.keys()  # noqa: SIM118 - a method of its own
                if (own := self.batchnorm.own(self.store.get(client)))
            }
        averaged = self._averaged(estimate=False)
        if averaged is not None:
            payload["averaged_state_dict"] = self._plain(*averaged, server.counters)
        return payload

    def _plain(
        self, w: Tensor, buffers: Tensor, counters: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        plain = self.flat.state_dict(w, buffers)
        for name, counter in counters.items():
            plain[name] = counter.detach().cpu().clone()
        return plain

    def _stateful_hooks(self) -> list[tuple[int, Any]]:
        return [(i, h) for i, h in enumerate(self._hooks) if hasattr(h, "load_state_dict")]

    def _hook_key(self, position: int) -> str:
        same = [h for h in self._hooks[:position] if type(h) is type(self._hooks[position])]
        return f"{type(self._hooks[position]).__name__}:{len(same)}"

    def _identity(self) -> dict[str, Any]:
        """What a resumed run must share with the one that it continues."""
        return {
            "seed": self.seed,
            "algorithm": json.dumps(self.cfg.algorithm, sort_keys=True, default=str),
            "local loss": json.dumps(self.cfg.get("local_loss"), sort_keys=True, default=str),
            "train data": self.data.checksum(),
            "batches": json.dumps(
                {key: self.cfg.train_dataloader.get(key) for key in BATCH_KEYS}, default=str
            ),
            "model parameters": self.flat.num_parameters,
            "dtype": str(self.flat.w.dtype),
            "amp": bool(self.cfg.train_cfg.get("amp", False)),
            "channels_last": bool(self.cfg.get("channels_last", True)),
            "averaging": type(self.averaging).__name__,
            "batchnorm": type(self.batchnorm).__name__,
            "param_scheduler": [type(s).__name__ for s in self.param_schedulers],
        }

    def save(self, round_: int) -> Path:
        """Write the checkpoint of the last finished round; a power loss spares its history."""
        self.history.sync()
        path = checkpoint_path(self.checkpoint_folder, round_)
        save_checkpoint(path, self.checkpoint_payload())
        return path

    def _verify_stores(self, payload: dict[str, Any]) -> None:
        for name, index in payload["stores"].items():
            if name in self.stores:
                self.stores[name].verify(index)

    def _resume_or_start(self) -> None:
        if self._resume:
            # averaging registers its store when training begins: build it before verifying
            self.call_hook("register_stores")
            with self._logged_warnings():
                found = latest_checkpoint(self.checkpoint_folder, self._verify_stores)
            if found is None:
                self.logger.warning(
                    f"--resume: no checkpoint in {self.checkpoint_folder}, starting from round 1"
                )
            else:
                self.resume_from(*found)
                return
        self._set_aside_earlier_run()

    def resume_from(self, path: Path, payload: dict[str, Any]) -> None:
        """Continue from a checkpoint's content."""
        for field, value in self._identity().items():
            before = payload["meta"]["identity"].get(field, value)
            if before != value:
                raise ConfigError(
                    f"--resume: {path} was made with another {field} ({before!r}, now {value!r}); "
                    "use the run's own config, or another --work-dir"
                )
        device = self.server.w.device
        self.flat.load_state_dict(payload["state_dict"])
        self.server.w.copy_(self.flat.w)
        self.server.buffers.copy_(self.flat.buffers)
        for name, counter in self.server.counters.items():
            counter.copy_(self.flat.counters[name])
        self.server.state = _to_device(payload["server_state"], device)
        self._resumed_hooks = _to_device(payload["hooks"], device)
        for scheduler, state in zip(self.param_schedulers, payload["schedulers"], strict=True):
            scheduler.load_state_dict(state)
        if self.param_schedulers:  # a schedule goes on from its last rate; else the config's holds
            groups = self.optim_wrapper.optimizer.param_groups
            for group, saved in zip(groups, payload["param_groups"], strict=True):
                group.update(saved)
        for name, index in payload["stores"].items():
            self.stores[name].load(index)
        self.seconds_before = payload["seconds"]
        self.train_loop.round = self.round = payload["round"]
        self.train_loop.pending = payload["pending_record"]
        pending = self.train_loop.pending is not None
        self.history.truncate(payload["round"] - pending)
        for position, hook in self._stateful_hooks():
            state = self._resumed_hooks.get(self._hook_key(position))
            if state:
                hook.load_state_dict(state)
        self.logger.info(f"resumed from {path} after round {payload['round']}")

    def _set_aside_earlier_run(self) -> None:
        """Move what an earlier run left in the work dir out of the way: nothing is overwritten."""
        root = Path(self.work_dir)
        outputs = [*(root / name for name in OUTPUTS), self._config_copy()]
        leftovers = [path for path in outputs if path.exists()]
        if not leftovers:
            return
        stamp = time.strftime("%Y%m%d_%H%M%S")
        aside = root / "previous" / f"{stamp}_{uuid.uuid4().hex[:4]}"
        aside.mkdir(parents=True)
        for path in leftovers:
            shutil.move(str(path), str(aside / path.name))
        self.logger.warning(
            f"an earlier run in {root} was moved to {aside} (--resume continues a run)"
        )

    def latest_checkpoint_message(self) -> str:
        """A sentence that names the newest checkpoint, for error messages."""
        found = checkpoints(self.checkpoint_folder)
        if not found:
            return "There is no checkpoint yet."
        return f"The last good checkpoint is {found[-1][1]} (round {found[-1][0]})."

    def interrupt_message(self) -> str:
        """What Ctrl-C tells the user."""
        if self.train_loop.round == 0:
            return "stopped before the first round was finished: nothing to save"
        return (
            f"stopped; rounds 1 to {self.train_loop.round} are saved. Go on with: "
            f"{self._resume_command()}"
        )

    def _resume_command(self) -> str:
        """The command line of this process, with ``--resume``."""
        arguments = [a for a in sys.argv if a != "--resume"]
        if Path(arguments[0]).name == "train.py":
            return shlex.join([cli.python(), *arguments, "--resume"])
        config = self.cfg.filename or "CONFIG"
        return f"python tools/train.py {config} --work-dir {self.work_dir} --resume"


def _plain_meta(meta: Any) -> Any:
    """Class names and colours as plain lists."""
    return json.loads(json.dumps(meta, default=list)) if meta is not None else None


def _to_device(value: Any, device: torch.device) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {k: _to_device(v, device) for k, v in value.items()}
    return value
