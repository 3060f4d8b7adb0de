"""A whole local step as one CUDA graph: launched at once instead of kernel by kernel.

A small network's step is a hundred kernels of a few microseconds, which the host cannot launch as
fast as a GPU runs them. A CUDA graph records them once and replays them with one call. What it
replays is fixed: addresses, shapes, and every number that Python held while it was recorded. So

- batches are copied into buffers of the graph's own; each shape of batch has its own graph;
- what belongs to one client (its start, its state, the message's extras) is copied, when its
  training begins, into vectors that stay where they are (``HELD``);
- learning rates are read from tensors, and so is what an optim wrapper or an algorithm lists in
  ``free_in_graphs``;
- every other number that the algorithm, the local loss, the optimizer or the model's modules hold
  is part of the graph's key: if one changes, another graph is recorded;
- momentum is zeroed between clients, never rebuilt.

A step that cannot be recorded runs eagerly, and so do all after it; one warning gives the reason.
That is a step that waits for the device (``.item()``), draws random numbers on the host, reads what
differs from step to step (``client.step``), or whose first replay does not do what the eager step
did. Each graph is held against its eager twin when it is made. Numbers that code keeps elsewhere
than in these objects, and changes, are not noticed: ``train_cfg.cuda_graph=False`` is for that.

Recording follows PyTorch's notes on CUDA graphs: warm-up on a side stream, then capture on that
stream; what the warm-up changed is put back.
"""

import contextlib
import random
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from fedseg.core.client import Client
from fedseg.core.forward import map_tensors
from fedseg.engine.trainer import ClientTrainer, EagerStep

WARM_UP_STEPS = 2
MAX_GRAPHS = 64
TOLERANCE = 0.02  # of a step: far above what the order of a sum does, far below another step
HELD = ("start", "full_gradient", "loss_sum")
# differ from step to step or from client to client: a graph would freeze them
CHANGING = frozenset({"id", "index", "round", "exchange", "num_samples", "num_steps", "step", "lr"})


class NotCapturableError(Exception):
    """Why a local step cannot be recorded; the sentence ends the warning."""


class CaptureBackend(Protocol):
    """What records work and replays it."""

    def warm_up(self, function: Callable[[], None]) -> None:
        """Run it as it will be recorded; RuntimeError if it waits for the device."""

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        """Record its work; returns what replays it."""


class CudaCapture:
    """Records on a CUDA device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        with torch.cuda.device(device):
            self.stream = torch.cuda.Stream()
            # nothing outlives a replay in there, so that graphs can share it in any order
            self.pool = torch.cuda.graph_pool_handle()

    def warm_up(self, function: Callable[[], None]) -> None:
        with torch.cuda.device(self.device):
            current = torch.cuda.current_stream()
            self.stream.wait_stream(current)
            mode = torch.cuda.get_sync_debug_mode()
            try:
                with torch.cuda.stream(self.stream):
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # it does not see every synchronization
                        torch.cuda.set_sync_debug_mode("error")
                    function()
            finally:
                torch.cuda.set_sync_debug_mode(mode)
                current.wait_stream(self.stream)

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        # a capture that fails may leave its stream current: the outer context brings back ours.
        # Threads that load data may go on meanwhile: thread_local.
        with torch.cuda.device(self.device), torch.cuda.stream(self.stream):
            try:
                with torch.cuda.graph(
                    graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"
                ):
                    function()
            except Exception:
                self._mend_generator()
                raise
        return graph.replay

    def _mend_generator(self) -> None:
        """A capture that fails leaves the default generator in capture mode: give it a new state.

        Seed and offset are put back with everything else.
        """
        with contextlib.suppress(AttributeError, RuntimeError):
            fresh = torch.Generator(self.device)
            own = torch.cuda.default_generators[self.device.index]
            own.graphsafe_set_state(fresh.graphsafe_get_state())


def capture_backend(device: torch.device) -> CaptureBackend | None:
    """What records on a device, or None if nothing does."""
    return CudaCapture(device) if device.type == "cuda" else None


def choose_step(
    trainer: ClientTrainer, choice: bool | str, warn: Callable[[str], None]
) -> EagerStep:
    """How a trainer does a local step: replayed where that is possible, else eagerly.

    Args:
        trainer: does the eager step.
        choice: ``train_cfg.cuda_graph``.
        warn: called with a message for the user.
    """
    if choice is False:
        return EagerStep(trainer)
    backend = capture_backend(trainer.flat.w.device)
    if backend is None:
        if choice is True:
            warn(
                "train_cfg.cuda_graph: local steps are not replayed from graphs: the model is on "
                f"the {trainer.flat.w.device.type}, not on a CUDA device"
            )
        return EagerStep(trainer)
    return GraphedStep(trainer, backend, warn)


@dataclass
class _Graph:
    """A recorded step: the buffers for its batch, and what replays it."""

    batch: list[Tensor]
    replay: Callable[[], None]


class GraphedStep(EagerStep):
    """Local steps replayed from graphs; they do what the eager ones do.

    Args:
        trainer: does the eager step that is recorded.
        backend: what records.
        warn: called with a message for the user.

    Attributes:
        graphs: what was recorded so far, by key.
        given_up: the reason why all steps run eagerly, if they do.
    """

    def __init__(
        self, trainer: ClientTrainer, backend: CaptureBackend, warn: Callable[[str], None]
    ) -> None:
        super().__init__(trainer)
        self.graphs: dict[Any, _Graph] = {}
        self.given_up: str | None = None
        self._backend = backend
        self._warn = warn
        self._client: Client | None = None
        self._loss = torch.zeros((), device=trainer.flat.w.device)
        self._rates: list[Tensor] = []
        self._places: dict[Any, Tensor] = {}  # (name, kind) -> where such a vector is held
        self._held: dict[str, Tensor] = {}  # the present client's, by name
        self._settings: dict[Any, tuple[int, Any]] = {}
        self._setting = -1

    def __call__(self, client: Client) -> None:
        if self.given_up is None:
            try:
                self._step(client)
                return
            except NotCapturableError as reason:
                self.given_up = str(reason)
                self._warn(
                    "train_cfg.cuda_graph: local steps are not replayed from graphs, which is "
                    f"slower but gives the same: {reason}"
                )
        super().__call__(client)

    def leave(self, client: Client) -> None:
        """Give the client a state of its own: the next one's goes to the same places."""
        if self._client is None:
            return
        client.state = {name: value.clone() for name, value in client.state.items()}
        self._client = None
        self._held.clear()

    def _step(self, client: Client) -> None:
        if client is not self._client or client.step % self._trainer.hook_interval == 0:
            self._enter(client)  # a new client, or a hook that may have changed something
        self._hold(client)
        batch = list(_tensors(client.batch, self._loss.device))
        key = self._setting, tuple((name, t.shape, t.dtype) for name, t in batch)
        graph = self.graphs.get(key)
        if graph is not None:
            for place, (_, tensor) in zip(graph.batch, batch, strict=True):
                place.copy_(tensor)
            graph.replay()
            client.loss = self._loss
        elif len(self.graphs) < MAX_GRAPHS:
            self.graphs[key] = self._record(client, [tensor for _, tensor in batch])
        else:
            self._warn_of_many()
            with self._rates_in_tensors():
                self._trainer.local_step(client)

    def _warn_of_many(self) -> None:
        if self._warn is not _silent:
            self._warn(
                f"train_cfg.cuda_graph: {MAX_GRAPHS} graphs are recorded, of batches of different "
                "sizes or for numbers that changed; steps of any other kind run eagerly"
            )
            self._warn = _silent

    # ---------------------------------------------------------------- what a graph depends on

    def _enter(self, client: Client) -> None:
        """Take over everything that may have changed since the last client or hook."""
        local = self._trainer.local
        groups = local.optimizer.param_groups
        _require_capturable(local.optimizer, self._trainer.flat.w)
        for group in groups:
            for parameter in group["params"] if group["momentum"] else ():
                state = local.optimizer.state[parameter]
                if state.get("momentum_buffer") is None:  # zeros are SGD's fresh buffer
                    state["momentum_buffer"] = torch.zeros_like(parameter)
        while len(self._rates) < len(groups):
            self._rates.append(torch.zeros_like(self._loss))
        for rate, group in zip(self._rates, groups, strict=False):
            rate.fill_(group["lr"])
        self._client = client
        settings = self._read_settings(client)
        if settings not in self._settings and len(self.graphs) < MAX_GRAPHS:
            # owners are kept, so that none of their ids can be another object's later
            owners = [*self._owners(), local.optimizer]
            self._settings[settings] = len(self._settings), owners
        self._setting = self._settings.get(settings, (-1, ()))[0]

    def _owners(self) -> list[Any]:
        """The objects whose code runs in a step, but for the model."""
        return [self._trainer.algorithm, self._trainer.local_loss, self._trainer.local]

    def _modules(self) -> list[nn.Module]:
        """The modules of the model, and those that an owner holds."""
        held = (value for owner in self._owners() for value in vars(owner).values())
        roots = [self._trainer.model, *(value for value in held if isinstance(value, nn.Module))]
        return [module for root in roots for module in root.modules()]

    def _read_settings(self, client: Client) -> Any:
        """Everything that a recorded step would freeze."""
        trainer = self._trainer
        optimizer = trainer.local.optimizer
        owners = self._owners()
        frozen = [_frozen(vars(owner), _free(owner)) for owner in owners]
        groups = [{k: v for k, v in g.items() if k != "lr"} for g in optimizer.param_groups]
        buffers = [s.get("momentum_buffer") for s in optimizer.state.values()]
        numbers = [
            (name, value)
            for module in self._modules()
            for name, value in vars(module).items()
            if isinstance(value, bool | int | float | str) or value is None
        ]
        vectors = {
            **{f"state {name}": _kind(value) for name, value in client.state.items()},
            **{f"extra {name}": _kind(value) for name, value in client.extras.items()},
            **{name: _kind(getattr(client, name)) for name in HELD},
        }
        return (
            tuple(id(owner) for owner in (*owners, optimizer)),
            tuple(frozen),
            _frozen({"groups": groups, "buffers": buffers}),
            tuple(numbers),
            tuple(sorted(vectors.items())),
            trainer.amp,
        )

    # ---------------------------------------------------------------- fixed addresses

    def _hold(self, client: Client) -> None:
        """Bring the client's own vectors to where graphs read and write them."""
        for name in HELD:
            value = getattr(client, name)
            if value is not None:
                setattr(client, name, self._fixed(name, value))
        for name, value in client.state.items():
            client.state[name] = self._fixed(f"state {name}", value)
        if any(self._held.get(f"extra {n}") is not v for n, v in client.extras.items()):
            client.extras = {n: self._fixed(f"extra {n}", v) for n, v in client.extras.items()}

    def _fixed(self, name: str, vector: Tensor) -> Tensor:
        if self._held.get(name) is vector:
            return vector
        key = name, _kind(vector)
        if key not in self._places:
            self._places[key] = torch.empty_like(vector)
        self._held[name] = self._places[key].copy_(vector)
        return self._held[name]

    def _bring_back(self, client: Client) -> None:
        """What an algorithm assigned instead of changing it in place goes to its fixed place."""
        for name, value in client.state.items():
            client.state[name] = self._returned(f"state {name}", value)
        for name in HELD:
            value = getattr(client, name)
            if value is not None:
                setattr(client, name, self._returned(name, value))

    def _returned(self, name: str, value: Tensor) -> Tensor:
        place = self._held.get(name)
        if place is value:
            return value
        if place is None or _kind(place) != _kind(value):
            raise NotCapturableError(f"a step adds {name!r} to the client, or reshapes it")
        return place.copy_(value)

    @contextlib.contextmanager
    def _rates_in_tensors(self) -> Iterator[None]:
        groups = self._trainer.local.optimizer.param_groups
        before = [group["lr"] for group in groups]
        for group, rate in zip(groups, self._rates, strict=False):
            group["lr"] = rate
        try:
            yield
            if any(g["lr"] is not r for g, r in zip(groups, self._rates, strict=False)):
                raise NotCapturableError("the learning rate is changed within a step")
        finally:
            for group, lr in zip(groups, before, strict=True):
                group["lr"] = lr

    # ---------------------------------------------------------------- recording

    def _record(self, client: Client, batch: list[Tensor]) -> _Graph:
        """Record a step and do it: the first replay is this step."""
        trainer, backend = self._trainer, self._backend
        places = [torch.empty_like(tensor).copy_(tensor) for tensor in batch]
        rest = iter(places)
        placed = map_tensors(lambda _: next(rest), client.batch)
        holders = [client, *self._owners(), *self._modules()]
        before = _Snapshot(self._changed_by_steps(client), holders, trainer.flat.w.device)
        settings = self._read_settings(client)
        watch = _Watch(client)

        def step() -> None:
            client.batch = placed
            trainer.local_step(watch)
            self._bring_back(client)
            self._loss.copy_(client.loss)

        try:
            trainer.cache_casts = False  # a cast that is cached would be recorded once
            with self._rates_in_tensors():
                for _ in range(WARM_UP_STEPS):
                    before.put_back()
                    backend.warm_up(step)
                    _require_equal(settings, self._read_settings(client))
                    watch.require_unread()
                draws = before.require_no_host_draws()
                expected = trainer.flat.w.clone()
                before.put_back()
                trainer.replays_draws = draws
                replay = backend.capture(step)
        except RuntimeError as error:  # a synchronization, or whatever else CUDA refuses
            raise NotCapturableError(_first_cause(error)) from error
        finally:
            trainer.cache_casts = trainer.replays_draws = True
            before.put_back()
        replay()
        self._require_twin(before.of(trainer.flat.w), trainer.flat.w, expected, before)
        client.loss = self._loss
        return _Graph(places, replay)

    def _changed_by_steps(self, client: Client) -> list[Tensor]:
        """Every tensor that a local step may change."""
        trainer = self._trainer
        flat = trainer.flat
        owned = [
            value
            for owner in self._owners()
            for value in vars(owner).values()
            if isinstance(value, Tensor)
        ]
        buffers = (b for module in self._modules() for b in module.buffers(recurse=False))
        states = trainer.local.optimizer.state.values()
        return [
            flat.w,
            flat.grad,
            flat.buffers,
            *flat.counters.values(),
            *buffers,
            *(value for state in states for value in state.values() if isinstance(value, Tensor)),
            *client.state.values(),
            *(getattr(client, name) for name in HELD if getattr(client, name) is not None),
            *owned,
        ]

    @staticmethod
    def _require_twin(
        start: Tensor, replayed: Tensor, expected: Tensor, before: "_Snapshot"
    ) -> None:
        gap = torch.linalg.vector_norm(replayed - expected)
        step = torch.linalg.vector_norm(expected - start)
        if bool(gap > TOLERANCE * step):  # a diverged client, NaN, passes
            before.put_back()
            raise NotCapturableError(
                f"replayed, a step ends {float(gap):.1e} away from where the eager one does (its "
                f"length is {float(step):.1e})"
            )


class _Watch:
    """A client as a recorded step sees it; notes what is read that a graph would freeze."""

    def __init__(self, client: Client) -> None:
        self.__dict__["_watched"] = client
        self.__dict__["_read"] = set()

    def __getattr__(self, name: str) -> Any:
        if name in CHANGING:
            self._read.add(name)
        value = getattr(self._watched, name)
        if isinstance(value, types.MethodType) and value.__self__ is self._watched:
            return types.MethodType(value.__func__, self)  # what its methods read is seen, too
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._watched, name, value)

    def require_unread(self) -> None:
        """Raise if something was read that differs from step to step or from client to client."""
        if self._read:
            raise NotCapturableError(
                f"a step reads client.{min(self._read)}, which a graph would keep as it is"
            )


class _Snapshot:
    """Tensors, objects' attributes and random states as they are now, to be put back.

    Args:
        tensors: to be copied.
        holders: objects whose attributes are remembered, and the content of dicts among these.
        device: of the model.
    """

    def __init__(self, tensors: list[Tensor], holders: list[Any], device: torch.device) -> None:
        self._tensors = [(tensor, tensor.clone()) for tensor in tensors]
        owned = [(vars(holder), _free(holder)) for holder in holders]
        owned += [(v, frozenset()) for m, _ in owned for v in m.values() if type(v) is dict]
        self._mappings = [(mapping, free, dict(mapping)) for mapping, free in owned]
        self._device = device
        self._host = _host_random_state()
        self._random = self._device_random_state()

    def _device_random_state(self) -> Tensor | None:
        return torch.cuda.get_rng_state(self._device) if self._device.type == "cuda" else None

    def of(self, tensor: Tensor) -> Tensor:
        """What a tensor was."""
        return next(value for own, value in self._tensors if own is tensor)

    @torch.no_grad()
    def put_back(self) -> None:
        """Return to the state of the snapshot."""
        for tensor, value in self._tensors:
            tensor.copy_(value)
        for mapping, free, content in self._mappings:
            kept = {name: mapping[name] for name in free if name in mapping}
            mapping.clear()
            mapping.update(content | kept)
        cpu, python, numpy = self._host
        torch.set_rng_state(torch.frombuffer(bytearray(cpu), dtype=torch.uint8))
        random.setstate(python)
        np.random.set_state((numpy[0], np.frombuffer(numpy[1], np.uint32), *numpy[2:]))  # noqa: NPY002
        if self._random is not None:
            torch.cuda.set_rng_state(self._random, self._device)

    def require_no_host_draws(self) -> bool:
        """Whether random numbers were drawn on the device; raises if any were on the host."""
        if _host_random_state() != self._host:
            raise NotCapturableError("a step draws random numbers on the host")
        now = self._device_random_state()
        return now is not None and not torch.equal(now, self._random)


def _host_random_state() -> tuple[bytes, Any, tuple]:
    name, keys, *rest = np.random.get_state()  # noqa: NPY002 - for code that is not ours
    return (
        torch.get_rng_state().numpy().tobytes(),
        random.getstate(),
        (name, keys.tobytes(), *rest),
    )


def _require_capturable(optimizer: torch.optim.Optimizer, w: Tensor) -> None:
    """Raise unless an optimizer's step can be recorded with its learning rate in a tensor."""
    if w.dtype != torch.float32:
        raise NotCapturableError(
            f"the model is in {str(w.dtype).removeprefix('torch.')}, and a recorded step has its "
            "learning rate in float32"
        )
    groups = optimizer.param_groups
    if type(optimizer) is not torch.optim.SGD or not all(g["fused"] for g in groups):
        raise NotCapturableError(f"{type(optimizer).__name__} is not torch's SGD with fused=True")
    if any(group["dampening"] for group in groups):
        raise NotCapturableError("with dampening, a client's first step is not like its others")


def _require_equal(before: Any, after: Any) -> None:
    if before != after:
        raise NotCapturableError(
            "a step changes numbers that the algorithm, the optimizer or the model holds"
        )


def _first_cause(error: BaseException) -> str:
    """The first line of what was raised first: the end of a broken capture raises once more."""
    while error.__context__ is not None:
        error = error.__context__
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _silent(_message: str) -> None:
    pass


def _kind(tensor: Tensor | None) -> Any:
    """What two vectors must share to be held in one place; as text, which sorts."""
    return "none" if tensor is None else f"{tensor.dtype} {tuple(tensor.shape)} {tensor.stride()}"


def _free(owner: Any) -> frozenset[str]:
    return getattr(owner, "free_in_graphs", frozenset())


def _frozen(value: Any, free: frozenset[str] = frozenset()) -> Any:
    """What a graph keeps of a value: numbers and text as they are, tensors by their address."""
    if isinstance(value, Tensor):
        return "tensor", value.data_ptr(), _kind(value)
    if isinstance(value, Mapping):
        items = ((k, v) for k, v in value.items() if isinstance(k, str | int))
        return tuple((k, _frozen(v)) for k, v in items if k not in free)
    if isinstance(value, list | tuple):
        return tuple(_frozen(v) for v in value)
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    return type(value).__qualname__


def _tensors(data: Any, device: torch.device, name: str = "batch") -> Iterator[tuple[str, Tensor]]:
    """The tensors of a batch with their places in it."""
    if isinstance(data, Tensor):
        if data.device != device:
            raise NotCapturableError(f"{name} is on the {data.device}, not on the {device}")
        yield name, data
    elif isinstance(data, Mapping):
        for key, value in data.items():
            yield from _tensors(value, device, f"{name}.{key}")
    elif isinstance(data, list | tuple):
        for number, value in enumerate(data):
            yield from _tensors(value, device, f"{name}[{number}]")
    else:
        raise NotCapturableError(f"{name} is a {type(data).__name__}, not a tensor")
