"""The client trainer: one model, one optimizer, and every client's local steps in turn."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import torch
from mmengine.model import BaseDataPreprocessor
from torch import Tensor

from fedseg.batchnorm import frozen_running_statistics
from fedseg.checks import shown
from fedseg.core.algorithm import AggregationRule, Algorithm, uses_full_gradient
from fedseg.core.client import Client, LocalOptimizer
from fedseg.core.client_data import ClientData, Job
from fedseg.core.flat import FlatModel
from fedseg.core.forward import prepare_batch
from fedseg.core.local_loss import LocalLoss
from fedseg.core.local_state import LocalState
from fedseg.core.messages import ClientResult, Message, Payload, Task, Update
from fedseg.core.seeds import seed_for, seed_model
from fedseg.errors import ConfigError, TensorMoved, explain_forward, missing_kernel
from fedseg.registry import MISTAKES
from fedseg.updates.postprocessor import Postprocessor


@dataclass(eq=False)
class ClientTrainer:
    """Trains one client after another in the same model.

    Attributes:
        flat: the model as flat vectors.
        algorithm: client and server rule.
        local: the local optimizer.
        data: the clients' batches.
        seed: the run's seed.
        call_hook: called as ``call_hook(stage, **arguments)``.
        local_loss: the loss of a minibatch.
        local_state: what stays with each client; None: nothing.
        payloads: what clients may send besides vectors like ``w``, by name.
        postprocessors: what happens to an update on its way, in this order.
        aggregation_rule: how updates are summed.
        amp: compute in bfloat16 under autocast; parameters and updates stay in the model's dtype.
        check: called before every local step; raises to stop early.
        hook_interval: local steps between two calls of ``after_local_steps``.
    """

    flat: FlatModel
    algorithm: Algorithm
    local: LocalOptimizer
    data: ClientData
    _: KW_ONLY
    seed: int
    call_hook: Callable[..., None]
    local_loss: LocalLoss = field(default_factory=LocalLoss)
    local_state: LocalState | None = None
    payloads: Mapping[str, Payload] = field(default_factory=dict)
    postprocessors: Sequence[Postprocessor] = ()
    aggregation_rule: AggregationRule = field(default_factory=AggregationRule)
    amp: bool = False
    check: Callable[[], None] = lambda: None
    hook_interval: int = 50

    def __post_init__(self) -> None:
        self.model = self.flat.model
        self.checked_exchanges: set[int] = set()  # whose first update was checked
        self.delta_scratch = torch.empty_like(self.flat.w)
        self._loss_is_checked = False  # on the first batch that goes through the model
        # model.modules() walks the network, train() sets an attribute of each: both are slow
        self._modules = list(self.model.modules())
        self._training: list[bool] = []  # of each module, as train() left it

    @property
    def needs_every_update(self) -> bool:
        """Whether the server gets every update by itself, not sums of blocks."""
        return self.algorithm.needs_every_update or self.aggregation_rule.needs_every_update

    def autocast(self) -> AbstractContextManager:
        """The context that every forward pass runs in."""
        if not self.amp:
            return nullcontext()
        return torch.autocast(self.flat.w.device.type, dtype=torch.bfloat16)

    def needs_random_state(self, exchange: int) -> bool:
        """True if a step of this exchange takes several gradients, with the same random numbers."""
        return self.algorithm.exchanges[exchange].gradients * self.local.passes > 1

    def loss(self, client: Client) -> Tensor:
        """The local loss of ``client.batch``, a 0-d tensor with a graph."""
        if not self._loss_is_checked:
            return self._first_loss(client)
        return self.local_loss.loss(client)

    def _first_loss(self, client: Client) -> Tensor:
        """The loss of the first batch that goes through the model; a mistake is a ConfigError."""
        kind = type(self.local_loss)
        who = "model" if kind is LocalLoss else f"local_loss: {kind.__name__}"
        try:
            loss = self.local_loss.loss(client)
        except MISTAKES as error:
            without_kernel = missing_kernel(error)
            if without_kernel is not None:
                raise without_kernel from error
            raise ConfigError(explain_forward(self.model, error, who)) from error
        if not isinstance(loss, Tensor) or loss.shape or not loss.requires_grad:
            raise ConfigError(
                f"{who}: its loss must be a 0-d tensor with a graph, not {shown(loss)}"
            )
        self._loss_is_checked = True
        return loss

    def local_step(self, client: Client) -> None:
        """One local step on ``client.batch``; nothing in it waits for the device."""
        with torch.enable_grad():
            self.algorithm.gradient(client)
        self._correct(client)
        self.local.step()  # clips the gradient where clip_grad is set, then torch's own step
        self.algorithm.after_step(client)
        client.loss_sum += client.loss

    def _correct(self, client: Client) -> None:
        """Let the algorithm correct the gradient of the parameters that it may reach."""
        mask = client.uncorrected_parameters
        if mask is None:
            self.algorithm.correct(client)
            return
        gradient = client.grad.clone()
        self.algorithm.correct(client)
        torch.where(mask, gradient, client.grad, out=client.grad)

    def train(self, task: Task, message: Message) -> ClientResult:
        """Load the message, do the client's local steps, and return its update."""
        exchange = self.algorithm.exchanges[task.exchange]
        # In one process these are the server's own tensors. Torch counts the changes in place of
        # each for autograd, as its _version, which no public name has
        received = [message.w, *message.extras.values(), *message.payloads.values()]
        versions = [tensor._version for tensor in received]
        client = self._load(task, message)
        self.call_hook("before_client", client=client)
        if exchange.full_gradient:
            self.local_loss.receive(client)
            client.full_gradient = self._full_gradient(client)
        payloads = None
        if exchange.train:
            self.algorithm.begin(client)
            self.local_loss.receive(client)
            self._local_steps(client)
            payloads = self.local_loss.finish(client)
        self._check_vectors(client)
        update = self._pack(client, payloads)
        self.call_hook("after_client", client=client, update=update)
        for postprocessor in self.postprocessors:
            postprocessor.process_update(client, update)
        if versions != [tensor._version for tensor in received]:
            raise ConfigError(
                "client.start, extras or payloads was changed in place, for all clients: change "
                "a copy (.clone())"
            )
        self._clear_gaps(update)
        return ClientResult(
            task=task,
            update=update,
            buffers=self.flat.buffers,
            counters=self.flat.counters,
            state=client.state,
            loss=float(client.loss_sum) / max(client.step, 1),
        )

    def _load(self, task: Task, message: Message) -> Client:
        """Bring model, optimizer and random numbers to where the client starts."""
        flat, algorithm = self.flat, self.algorithm
        flat.w.copy_(message.w)
        flat.buffers.copy_(message.buffers)
        flat.counters.copy_(message.counters)
        seed_model(seed_for(self.seed, "model", task.round, task.client), flat.w.device)
        self.local.reset_state()
        if [module.training for module in self._modules] != self._training:
            self.model.train()
            self._training = [module.training for module in self._modules]
        client = Client(self, task, message)
        for name in algorithm.client_vectors:
            if name not in client.state:
                client.state[name] = torch.zeros_like(flat.w)
        if self.local_state is not None:
            self.local_state.load(client)
            client.uncorrected_parameters = self._uncorrected_parameters(message, self.local_state)
        return client

    def _uncorrected_parameters(self, message: Message, local_state: LocalState) -> Tensor | None:
        """A mask over ``w`` of the parameters that no correction reaches; None: it reaches all.

        Vectors of the whole model, such as a control variate, have no counterpart in personal
        parameters.

        Raises:
            ConfigError: the algorithm takes gradients in a way of its own, at weights that such
                vectors may shift.
        """
        if not local_state.parameter_names:
            return None
        algorithm = self.algorithm
        if not (algorithm.client_vectors or uses_full_gradient(algorithm) or message.extras):
            return None
        kind = type(algorithm)
        if kind.gradient is not Algorithm.gradient:
            raise ConfigError(
                f"personal: it keeps parameters on the client, and {kind.__name__} has a gradient "
                "rule of its own with vectors of the whole model, which may reach them: "
                "share all parameters (personal=None, '@batchnorm.statistics' for '@batchnorm'), "
                "or take FedAvg, FedProx or SCAFFOLD"
            )
        return local_state.parameter_mask

    def _local_steps(self, client: Client) -> None:
        for batch in self.data.batches(Job(client.round, client.exchange, client.index)):
            self.check()
            client.batch = self.prepare(client, batch)
            self.local_step(client)
            client.step += 1
            if client.step % self.hook_interval == 0:
                self.call_hook("after_local_steps", client=client)
        client.batch = None

    def prepare(self, client: Client, batch: Any) -> Any:
        """A batch of the client's data as the model takes it; an attacker's may be changed."""
        preprocessor = type(getattr(self.model, "data_preprocessor", None))
        # MMEngine's default only moves tensors to the model's device
        ready = self.data.fits_model and preprocessor in (BaseDataPreprocessor, type(None))
        if not ready:
            batch = prepare_batch(self.model, batch, self.flat.w.dtype, training=True)
        for postprocessor in self.postprocessors:
            batch = postprocessor.process_batch(client, batch)
        return batch

    def _check_vectors(self, client: Client) -> None:
        """Raise TensorMoved if what was trained is not what the flat vectors hold."""
        self.flat.check_views()
        if client.w is not self.flat.w or client.grad is not self.flat.grad:
            raise TensorMoved(
                f"{type(self.algorithm).__name__}: client.w or client.grad was replaced: use "
                "client.grad.copy_(...)"
            )

    def _pack(self, client: Client, payloads: Mapping[str, Tensor] | None) -> Update:
        """The algorithm's update, with the payloads of the local loss, without personal parts."""
        update = self.algorithm.finish(client)
        if not isinstance(update, Update):
            raise ConfigError(
                f"{type(self.algorithm).__name__}: its finish() must return an Update, not "
                f"{type(update).__name__}"
            )
        if not isinstance(payloads, Mapping | None):
            raise ConfigError(
                f"{type(self.local_loss).__name__}: its finish() must return a dict of payloads "
                f"or None, not {type(payloads).__name__}"
            )
        update.payloads.update(payloads or {})
        if self.local_state is not None:
            self.local_state.save(client, update, self.algorithm.client_vectors)
        return update

    def _clear_gaps(self, update: Update) -> None:
        """Zero what no parameter has: noise on a whole vector reaches it, and norms count it."""
        delta = update.vectors.get("delta")
        if isinstance(delta, Tensor) and delta.shape == self.flat.w.shape and not delta.is_sparse:
            delta.detach().index_fill_(0, self.flat.gaps, 0)

    def _full_gradient(self, client: Client) -> Tensor:
        """The local optimizer's gradient over all of a client's samples, at ``w``, augmented once.

        With SAM it is the mean of the minibatches' SAM gradients, which any one of them estimates.
        BatchNorm normalizes by the batch and its running statistics stay as they are.
        """
        total = torch.zeros_like(self.flat.w)
        sizes = self.data.full_sizes(client.index)
        job = Job(client.round, client.exchange, client.index, full=True)
        with frozen_running_statistics(self.model):
            for size, batch in zip(sizes, self.data.batches(job), strict=True):
                self.check()
                client.batch = self.prepare(client, batch)
                with torch.enable_grad():
                    self.local.gradient(client)
                total.add_(self.flat.grad, alpha=size / sum(sizes))
        client.batch = None
        return total
