"""The federated runner: MMEngine's Runner with clients, a server and rounds."""

# before what imports MMEngine's optimizers itself
import fedseg.mmengine_optim  # noqa: F401, isort: skip

import time
import uuid
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.logging import MMLogger
from mmengine.runner import Runner
from mmengine.utils.dl_utils import set_multi_processing
from mmengine.visualization import Visualizer
from torch import Tensor, nn

from fedseg.config.arguments import check_arguments
from fedseg.config.check import complete_config
from fedseg.config.components import LOCAL_TRAINING
from fedseg.core.flat import FlatModel
from fedseg.core.local_state import LocalState
from fedseg.core.server import Server
from fedseg.engine.executor import Executor
from fedseg.engine.loop import FederatedTrainLoop
from fedseg.evaluation.loops import FederatedValLoop
from fedseg.evaluation.statistics import statistics_batches, statistics_of
from fedseg.files import make_folder, own_path, remove_temporaries
from fedseg.hooks.averaging import ModelAverage
from fedseg.memory import restoring_threads
from fedseg.registry import (
    EXECUTORS,
    LOOPS,
    RUNNERS,
    SAMPLERS,
    build,
    check_component,
    find_class,
)
from fedseg.runner import logs, run_state
from fedseg.runner.build import (
    assemble_trainer,
    bind_hooks,
    build_evaluation,
    build_hooks,
    build_local_state,
    build_model,
    build_schedulers,
    build_vectors,
    check_classes,
    check_tests,
    load_start,
    load_weights,
    move_model,
    weights_digest,
)
from fedseg.runner.checkpoint import (
    CHECKPOINTS,
    checkpoint_path,
    checkpoints,
    save_checkpoint,
)
from fedseg.runner.interrupt import InterruptGuard
from fedseg.runner.kernels import choose_kernels, device_of
from fedseg.runner.sampler import ClientSampler, build_sampler
from fedseg.runner.state_store import StateStore, closing_stores
from fedseg.runner.trackers import check_backends
from fedseg.runner.work_dir import (
    RESULTS,
    check_free,
    explain_how_to_resume,
    lock_work_dir,
    start_anew,
    write_config,
)
from fedseg.runs.config import config_digest, config_text
from fedseg.runs.history import HISTORY, History
from fedseg.runs.results import write_results
from fedseg.units import count_cores


@RUNNERS.register_module()
class FederatedRunner(Runner):
    """Runs federated training, and evaluation by domain, from a config.

    Use :meth:`from_cfg`, then :meth:`train` or :meth:`test`. It has the attributes of
    :class:`fedseg.core.hook.Run`, which hooks may use, and those below.

    ``__init__`` sets what has a value from the start, and then calls MMEngine's, which keeps its
    arguments (``cfg``, ``work_dir``, the configs of data and loops, ``_resume``) and calls these
    overrides in the order in which they stand here; each leaves:

    1. ``setup_env``: the start method of processes, limits of the system, ``_timestamp``;
    2. ``set_randomness``: ``seed``, seeded global generators, the kernels of CUDA;
    3. ``build_logger``: ``logger``;
    4. ``_log_env``: the first lines of the log;
    5. ``build_visualizer``: ``visualizer``, without the trackers, which start with training;
    6. ``build_model``: ``model``, on the CPU; its weights are drawn with the federation;
    7. ``wrap_model``: ``model`` on its device;
    8. ``register_hooks``: ``_hooks``, by priority, and ``averaging``;
    9. ``dump_config``: nothing.

    All else is built by :meth:`build_federation`, or by :meth:`open_checkpoint` for a test.

    Attributes:
        trainer: what trains the clients; has the algorithm, the data and the local optimizer.
        stores: every state store by name; ``store`` is the clients'.
        local_state: what stays with each client, or None.
        averaging: its hook, or None.
        environments: what computed the rounds from each ``round`` on; several after a resume with
            another number of threads or other packages.
        initial_sha256: of the weights with which training began.
        visualizer: while rounds are trained, what a hook adds to it reaches the trackers.
        quiet: whether the terminal shows nothing but errors; see :meth:`mute_console`.
    """

    quiet = False

    @classmethod
    def from_cfg(cls, cfg: Config) -> "FederatedRunner":
        """Build a runner; raises ConfigError for what is unknown or contradicts itself."""
        cfg = cfg if isinstance(cfg, Config) else Config(dict(cfg))
        return cls.from_complete(complete_config(cfg))

    @classmethod
    def from_complete(cls, cfg: Config) -> "FederatedRunner":
        """Build a runner from a config that is complete and checked."""
        make_folder(cfg.work_dir)
        return super().from_cfg(cfg)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.name = kwargs["experiment_name"] or Path(kwargs["cfg"].filename or "run").stem
        # MMEngine keeps logs by this name: two runs of one process must not share one
        kwargs["experiment_name"] = f"{self.name}_{uuid.uuid4().hex[:8]}"
        self.interrupt = InterruptGuard()
        self.stores: dict[str, StateStore] = {}
        self.round = 0
        self.averaging: ModelAverage | None = None
        self.local_state: LocalState | None = None
        self.flat: FlatModel | None = None
        self.client_sizes: dict[str, int] = {}
        self.domain_clients: dict[str, list[str]] = {}
        self.held_out: dict[str, Any] = {}
        self.seconds_before = 0.0
        self.begin = time.perf_counter()
        self.environments: list[dict[str, Any]] = []
        self.initial_sha256: str | None = None
        self._estimate: tuple[int, Tensor] | None = None  # round, re-estimated buffers
        self._other_config = False  # a finished run is resumed with a permitted change
        kwargs["default_scope"] = "fedseg"
        kwargs["param_scheduler"] = None  # built with the federation
        super().__init__(*args, **kwargs)
        self.history = History(Path(self.work_dir) / HISTORY)

    # ---------------------------------------------------------------- called by Runner.__init__

    def setup_env(self, env_cfg: dict) -> None:
        processes = env_cfg.get("mp_cfg") or {}
        check_arguments(
            set_multi_processing, processes, "env_cfg.mp_cfg", injected=("distributed",)
        )
        super().setup_env(env_cfg)

    def set_randomness(
        self, seed: int, diff_rank_seed: bool = False, deterministic: bool = True
    ) -> None:
        """Seed the global generators, and choose the kernels of CUDA."""
        super().set_randomness(seed, diff_rank_seed)
        choose_kernels(device_of(self.cfg), deterministic)

    def build_logger(self, log_level: str = "WARNING", **kwargs: Any) -> MMLogger:
        """Everything goes to the log file; the terminal sees warnings (or ``log_level``)."""
        logger = super().build_logger(log_level="INFO", **kwargs)
        logs.quiet_console(logger, log_level)
        return logger

    def _log_env(self, env_cfg: dict) -> None:
        self.logger.info(f"torch {torch.__version__}, seed {self.seed}")
        threads = torch.get_num_threads()
        cores = count_cores()
        if threads > cores:
            self.logger.warning(
                f"{threads} threads slow each other down on {cores} cores: set "
                f"OMP_NUM_THREADS={cores}"
            )
        self.logger.info(f"Config:\n{config_text(self.cfg.to_dict())}")

    def build_visualizer(self, visualizer: Any = None) -> Visualizer:
        check_backends(visualizer)
        return Visualizer.get_instance(self.experiment_name)

    def build_model(self, model: Any) -> nn.Module:
        resumed = self._resume and bool(checkpoints(self.checkpoint_folder))
        return build_model(self.cfg, from_checkpoint=resumed)

    def wrap_model(self, model_wrapper_cfg: Any, model: nn.Module) -> nn.Module:
        return move_model(model, self.cfg)

    def register_hooks(self, default_hooks: Any = None, custom_hooks: Any = None) -> None:
        for field, hook in build_hooks(self.cfg):
            self.register_hook(hook)
            if field == "averaging":
                self.averaging = hook

    def dump_config(self) -> None:
        """Nothing yet: MMEngine asks for it before an earlier run's copy is out of the way."""

    # ---------------------------------------------------------------- what a run consists of

    def call_hook(self, fn_name: str, **kwargs: Any) -> None:
        """Call a stage of every hook that has it (MMEngine's own loses tracebacks)."""
        for hook in self._hooks:
            if stage := getattr(hook, fn_name, None):
                stage(self, **kwargs)

    def mute_console(self) -> None:
        """Show nothing but errors on the terminal; the log file still has everything."""
        self.quiet = True
        logs.quiet_console(self.logger, "ERROR")

    @property
    def max_rounds(self) -> int:
        return self.cfg.train_cfg.max_rounds

    @property
    def val_loop(self) -> Any:
        """The evaluation loop, or None."""
        return self._val_loop

    @property
    def seconds(self) -> float:
        """Wall time of the run, earlier parts of a resumed one included."""
        return self.seconds_before + time.perf_counter() - self.begin

    def state_dict(self) -> dict[str, Any]:
        """The time it took so far, what computed it, and from which weights; parts have theirs."""
        return {
            "seconds": self.seconds,
            "environments": self.environments,
            "initial_sha256": self.initial_sha256,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seconds_before = state["seconds"]
        self.environments = list(state["environments"])
        self.initial_sha256 = state["initial_sha256"]

    def autocast(self) -> AbstractContextManager:
        """The context of every forward pass: bfloat16 if ``train_cfg.amp``."""
        enabled = bool(self.cfg.train_cfg.get("amp", False))
        return torch.autocast(self.flat.w.device.type, dtype=torch.bfloat16, enabled=enabled)

    def check_data_files(self) -> None:
        """Raise DataError if a file of the training data is gone, or was cut."""
        dataset = getattr(self.data, "dataset", None)
        if hasattr(dataset, "check_files"):
            dataset.check_files()

    def open_store(self, name: str) -> StateStore:
        """A store in ``state`` of the work dir, saved and restored with the checkpoints."""
        self.stores[name] = StateStore(own_path(Path(self.work_dir), f"state/{name}.sqlite"))
        return self.stores[name]

    def _build_model_state(self, load_from: Any = None) -> None:
        """The model's vectors, the hooks that look at them, the clients' states."""
        self.flat = build_vectors(self.model, self.cfg)
        load_start(self.flat, load_from)
        self.local_state = build_local_state(self.cfg, self.flat)
        bind_hooks(self._hooks, self.flat)
        self.store = self.open_store("clients")

    def build_federation(self) -> None:
        """Build everything that training needs, from data to hooks' state; trains nothing."""
        with logs.logged_warnings(self.logger):
            self._build_model_state(self.cfg.get("load_from"))
            self._check_built_later()  # before the data, which take long to read
            self._build_trainer()  # lays the local optimizer over the model's vectors
        self._build_server()  # has the payloads and vectors that the trainer's parts declare
        self._build_loops()  # schedules the local optimizer; an evaluation looks for the trainer

    def _build_trainer(self) -> None:
        """The executor, and the trainer with the clients' data."""
        self.executor: Executor = build(EXECUTORS, self.cfg.executor, "executor")
        self.trainer = assemble_trainer(
            self.cfg,
            self.flat,
            local_state=self.local_state,
            call_hook=self.call_hook,
            hooks=self.hooks,
            check=self.interrupt.check,
            warn=self.logger.warning,
        )
        self.algorithm = self.trainer.algorithm
        self.optim_wrapper = self.trainer.local
        self.data = self.trainer.data
        self.client_sizes = dict(zip(self.data.clients, self.data.sizes, strict=True))
        self.domain_clients = self.data.clients_by_domain()
        self.held_out = getattr(self.data, "held_out", {})

    def _build_server(self) -> None:
        """The sampler of participants, and the server; binds the executor to the run."""
        clients = self.data.clients
        self.client_sampler = build_sampler(self.cfg.client_sampler, clients, self.seed)
        self.client_sampler.participants(self.max_rounds)  # a list that is too short fails here
        vectors = self.algorithm.server_vectors
        self.server = Server(self.flat, len(clients), vectors, self.local_state)
        self.server.keep(self.trainer.payloads.values())
        self.executor.bind(self)

    def _build_loops(self) -> None:
        """The loops of training and evaluation, and the schedules by round; checks the classes."""
        cfg = self.cfg
        parts = {"runner": self, "dataloader": self._train_dataloader}
        self._train_loop = build(LOOPS, self._loop_config(), "train_cfg", parts)
        self.param_schedulers = build_schedulers(cfg, self.optim_wrapper)
        self._val_loop = build_evaluation(cfg, "val", self) if self._val_dataloader else None
        tests = getattr(self.val_loop, "sets", ())
        check_classes(cfg, self.data.dataset)
        check_tests(self.data.dataset, tests)

    def _loop_config(self) -> dict[str, Any]:
        """The config of the training loop: ``train_cfg`` without what the trainer reads of it."""
        options = self.cfg.train_cfg.items()
        return {key: value for key, value in options if key not in LOCAL_TRAINING}

    def _check_built_later(self) -> None:
        """Raise ConfigError for a mistake in what is built after the data."""
        cfg = self.cfg
        check_component(SAMPLERS, cfg.client_sampler, "client_sampler", base=ClientSampler)
        check_component(
            LOOPS,
            self._loop_config(),
            "train_cfg",
            injected=("runner", "dataloader"),
            base=FederatedTrainLoop,
            optional=LOCAL_TRAINING,
        )
        if cfg.test_cfg is not None:  # built when a checkpoint is tested
            find_class(LOOPS, cfg.test_cfg, "test_cfg", FederatedValLoop)

    # ---------------------------------------------------------------- train, test

    def train(self) -> nn.Module:
        """Train to the last round; the model then holds the global (or averaged) weights."""
        with (
            logs.closing_log(self.logger),
            lock_work_dir(self.work_dir),
            explain_how_to_resume(self.cfg),
            closing_stores(self.stores),
            restoring_threads(),  # an executor may set their number
        ):
            check_free(self.cfg)
            self.build_federation()
            self.begin = time.perf_counter()
            with self.interrupt:
                self.call_hook("before_run")
                self._resume_or_start()
                run_state.note_environment(self)
                write_config(self.cfg, self.name)
                self._train()
        return self.model

    def _train(self) -> None:
        self.train_loop.run()
        if self.val_loop is not None and not self.val_loop.details:
            self.val_loop.run()  # resumed after the last round: its details are needed
        weights = run_state.state_dict(self, *self.evaluated_model())
        if self._other_config:  # no round was trained: give the checkpoint the changed config
            self.save(self.round)
        self.flat.load_state_dict(weights)
        self.results = write_results(self)
        self.call_hook("after_run")

    def open_checkpoint(self, checkpoint: Any, payload: Any = None) -> None:
        """Take what an evaluation needs of a checkpoint, or of its ``payload`` if it was read."""
        self._build_model_state()
        run_state.restore_for_test(self, load_weights(self.flat, str(checkpoint), payload))
        self.averaging = None  # its result, not its history, is what is tested

    def test(self, checkpoint: Any, on_prediction: Any = None, payload: Any = None) -> dict:
        """Evaluate a checkpoint, or its ``payload`` if it was read, on every test domain.

        ``on_prediction``: see :class:`fedseg.evaluation.domains.DomainEvaluator`.
        """
        self.open_checkpoint(checkpoint, payload)
        self._test_loop = build_evaluation(self.cfg, "test", self)
        for test in self._test_loop.sets:
            check_classes(self.cfg, test.dataset, f"test_dataloader.{test.name}.dataset")
        with logs.closing_log(self.logger), self.interrupt:
            return self._test_loop.run(on_prediction)

    def averaged_model(self, estimate: bool = False) -> tuple[Tensor, Tensor] | None:
        """(parameters, buffers) of the averaged model, or None.

        Args:
            estimate: re-estimate its BatchNorm statistics where configured, for an evaluation.
        """
        averaged = self.averaging.averaged_model(self) if self.averaging is not None else None
        local = self.local_state is not None and not self.local_state.estimable
        if averaged is None or self.averaging.bn != "reestimate" or local:
            return averaged
        if not self.has_estimate:
            if not estimate:
                return averaged
            parts = self.flat, statistics_batches(self.data), *averaged, self.autocast
            self._estimate = (self.round, statistics_of(*parts, self.interrupt.check))
        return averaged[0], self._estimate[1]

    @property
    def has_estimate(self) -> bool:
        """True if the averaged model's BatchNorm statistics were re-estimated after this round."""
        return self._estimate is not None and self._estimate[0] == self.round

    def evaluated_model(self) -> tuple[Tensor, Tensor]:
        """(parameters, buffers) of the averaged model if there is one, else of the global one."""
        return self.averaged_model(estimate=True) or (self.server.w, self.server.buffers)

    # ---------------------------------------------------------------- save, resume

    @property
    def checkpoint_folder(self) -> Path:
        return Path(self.work_dir) / CHECKPOINTS

    def save(self, round_: int) -> Path:
        """Write the checkpoint of the last finished round; a power loss spares its history."""
        self.history.sync()
        path = checkpoint_path(self.checkpoint_folder, round_)
        save_checkpoint(path, run_state.collect(self))
        return path

    def save_finished(self) -> bool:
        """Save the last finished round unless it is on disk; whether there was anything to save."""
        loop = self._train_loop
        number = getattr(loop, "finished_rounds", 0)  # a test has no loop
        on_disk = checkpoint_path(self.checkpoint_folder, number).is_file()
        if not number or (on_disk and loop.pending is None):
            return False
        path = self.save(number)
        self.logger.info(f"saved {path}")
        return True

    def _resume_or_start(self) -> None:
        self.call_hook("register_stores")
        if self._resume and self._restore_newest():
            return
        self.initial_sha256 = weights_digest(self.flat)
        start_anew(self.cfg)

    def _restore_newest(self) -> bool:
        """Go on from the newest checkpoint; False, with a warning, if there is none."""
        remove_temporaries(self.checkpoint_folder)
        newest = run_state.restore_newest(self, self.checkpoint_folder)
        if newest is None:
            self.logger.warning(
                f"--resume: no checkpoint in {self.checkpoint_folder}, starting from round 1"
            )
            return False
        path, payload = newest
        self._reopen_last_round()
        complete_rounds = self.round - (self.train_loop.pending is not None)
        is_finished = complete_rounds == self.max_rounds
        config_of_checkpoint = payload["meta"].get("config_sha256")
        self._other_config = is_finished and config_of_checkpoint != config_digest(self.cfg)
        if complete_rounds < self.max_rounds:  # they would be those of fewer rounds
            (Path(self.work_dir) / RESULTS).unlink(missing_ok=True)
        if complete_rounds < self.round and payload["loop"]["pending"] is None:
            self.history.forget_last_line()
            self.save(self.round)  # a kill in the evaluation finds the record there
        self.history.truncate()
        self.logger.info(f"resumed from {path} after round {self.round}")
        return True

    def _reopen_last_round(self) -> None:
        """Let the last round be evaluated if it was not: the run had more rounds when it ended."""
        loop = self.train_loop
        if loop.pending is None and self.round == self.max_rounds and self.val_loop is not None:
            line = self.history.read()[self.round - 1]
            loop.pending = None if "metrics" in line else line
