"""A client during its local training, and the interfaces of its trainer and optimizer."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from fedseg.core.flat import FlatModel
from fedseg.core.forward import forward, total_loss
from fedseg.core.messages import Message, Task
from fedseg.errors import ConfigError, missing_kernel

T = TypeVar("T")


class LocalOptimizer(Protocol):
    """The local optimizer as algorithms and hooks see it: :class:`fedseg.optim.OptimWrapper`.

    Attributes:
        optimizer: the torch optimizer over the flat vector.
        passes: forward-backward passes per step.
    """

    optimizer: torch.optim.Optimizer
    passes: int

    def gradient(self, client: "Client", replay: bool = False) -> None:
        """Compute this step's gradient in ``client.grad``; leaves ``client.w`` unchanged.

        ``replay``: True if the caller has already taken a gradient of this batch.
        """

    def step(self) -> None:
        """One step along ``grad``."""

    def reset_state(self) -> None:
        """Begin as a new optimizer, without momentum."""

    def start_round(self, round_: int) -> None:
        """Set what depends on the round, from 1; called before its first client."""

    def change_rates(self, rates: Sequence[float]) -> None:
        """Give the optimizer's groups other learning rates, until :meth:`restore_rates`."""

    def restore_rates(self) -> None:
        """Restore the ordinary learning rates, if they were changed."""


class Trainer(Protocol):
    """The trainer as a client sees it.

    Attributes:
        flat: the one model as flat vectors.
        local: its optimizer.
        delta_scratch: memory like ``w`` for :meth:`Client.delta`.
    """

    flat: FlatModel
    local: LocalOptimizer
    delta_scratch: Tensor

    def autocast(self) -> AbstractContextManager:
        """The context that every forward pass runs in."""

    def needs_random_state(self, exchange: int) -> bool:
        """True if a step of this exchange takes several gradients, with the same random numbers."""

    def loss(self, client: "Client") -> Tensor:
        """The local loss of ``client.batch``, a 0-d tensor with a graph."""

    def prepare(self, client: "Client", batch: Any) -> Any:
        """A batch of the client's data as the model takes it."""


class Client:
    """A client during its local training, as algorithms, optim wrappers and hooks see it.

    Attributes:
        id: its name in the partition.
        index: its position there.
        round: the present round, from 1.
        exchange: the present exchange of the round, from 0.
        num_samples: N_k.
        num_steps: local steps K_k.
        step: local steps done so far.
        flat: the model as flat vectors.
        w: its parameters, flat; the present ones during the local steps.
        grad: its gradient, laid out as ``w``.
        buffers: its float buffers, flat.
        counters: its integer buffers, flat.
        local: the local optimizer.
        batch: the present minibatch, as the model takes it.
        start: the parameters that it started from, flat; do not change in place.
        extras: further tensors of the message, for example the server's control variate.
        payloads: the server's values of broadcast payloads, by name, in the model's dtype.
        numbers: what the server sends this client alone, by name.
        state: its own vectors, kept between its rounds; assign or change in place.
        lr: the local learning rate of this round.
        loss: the loss in the step's first pass, a 0-d tensor on the device, valid until the next
            step.
        loss_sum: the sum of ``loss`` over the local steps so far, a 0-d tensor on the device.
        personal_positions: positions in ``w`` of the parameters that stay with the client, int64,
            1-D; None: there are none.
        uncorrected_parameters: mask over ``w``, True at parameters that the algorithm's correction
            does not reach; None: it reaches all.
        full_gradient: the full-batch gradient at ``start``, as the local optimizer takes it (SAM's
            with SAM), where the algorithm asks for one.
    """

    def __init__(self, trainer: Trainer, task: Task, message: Message) -> None:
        self._trainer = trainer
        self.id = task.name
        self.index = task.client
        self.round = task.round
        self.exchange = task.exchange
        self.num_samples = task.num_samples
        self.num_steps = task.num_steps
        self.flat = trainer.flat
        self.w = trainer.flat.w
        self.grad = trainer.flat.grad
        self.buffers = trainer.flat.buffers
        self.counters = trainer.flat.counters
        self.start = message.w
        self.extras = message.extras
        self.payloads = message.payloads
        self.numbers = {name: values[task.client] for name, values in message.numbers.items()}
        self.personal_positions: Tensor | None = None
        self.uncorrected_parameters: Tensor | None = None
        self.local = trainer.local
        self.lr = trainer.local.optimizer.param_groups[0]["lr"]
        self.step = 0
        self._batch: Any = None
        self._computed: dict[str, Any] = {}  # by once_per_batch
        self.loss: Tensor  # from the first pass on
        self.full_gradient: Tensor  # from the pass over all samples on
        self._needs_random_state = trainer.needs_random_state(task.exchange)
        self._random_state: tuple[Tensor, Tensor | None] | None = None
        device = self.w.device
        precision = torch.promote_types(self.w.dtype, torch.float32)
        self.loss_sum = torch.zeros((), device=device, dtype=precision)
        self.state = {name: tensor.to(device, copy=True) for name, tensor in task.state.items()}

    @property
    def model(self) -> nn.Module:
        """The network, whose parameters are ``w``."""
        return self.flat.model

    @property
    def batch(self) -> Any:
        """The present minibatch, as the model takes it; another one empties once_per_batch."""
        return self._batch

    @batch.setter
    def batch(self, batch: Any) -> None:
        self._batch = batch
        self._computed = {}

    def once_per_batch(self, name: str, compute: Callable[[], T]) -> T:
        """What ``compute()`` gives for the present batch; computed in the first pass over it.

        For outputs of networks whose parameters stay fixed: SAM's second pass needs the same ones.
        """
        if name not in self._computed:
            self._computed[name] = compute()
        return self._computed[name]

    def delta(self) -> Tensor:
        """``start - w`` as it is sent: 0 at parameters that stay with the client.

        It is in a scratch vector that the next call, of :meth:`displacement` too, overwrites.
        """
        delta = self.displacement()
        if self.personal_positions is not None:
            delta.index_fill_(0, self.personal_positions, 0)
        return delta

    def displacement(self) -> Tensor:
        """``start - w`` of all parameters, for example for a proximal term.

        It is in a scratch vector that the next call, of :meth:`delta` too, overwrites.
        """
        return torch.sub(self.start, self.w, out=self._trainer.delta_scratch)

    def autocast(self) -> AbstractContextManager:
        """The context that every forward pass of the client runs in."""
        return self._trainer.autocast()

    def prepare(self, batch: Any) -> Any:
        """A batch of the client's data as the model takes it, for passes beside the local steps."""
        return self._trainer.prepare(self, batch)

    def model_loss(self) -> Tensor:
        """The model's own loss of the batch, a 0-d tensor with a graph.

        It enters :meth:`autocast` although :meth:`backward` has, for algorithms that call it
        elsewhere.
        """
        with self.autocast():
            return total_loss(forward(self.model, self.batch, "loss"))

    def model_layers(self) -> Mapping[str, Any]:
        """The model's losses of the batch, and by name the layers that it returns beside them.

        ``total_loss`` of it is :meth:`model_loss`.
        """
        with self.autocast():
            return forward(self.model, self.batch, "layers")

    def backward(self, replay: bool = False) -> Tensor:
        """Compute the minibatch gradient of the local loss at the current ``w`` in ``grad``.

        A step's gradient goes this way: :meth:`Algorithm.gradient` calls
        :meth:`LocalOptimizer.gradient`, which calls ``backward`` once for each of its passes. That
        calls :meth:`LocalLoss.loss`, by default :meth:`model_loss`, and
        :meth:`FlatModel.backward`.

        Args:
            replay: True if the caller has already taken a gradient of this batch (SAM's second
                pass): the model draws the same random numbers (dropout) again, and ``loss`` keeps
                the first pass's value.

        Returns:
            The loss, a 0-d tensor.
        """
        if replay:
            self._restore_random_state()
        elif self._needs_random_state:
            self._keep_random_state()
        with self._trainer.autocast():
            loss = self._trainer.loss(self)
        try:
            self.flat.backward(loss)
        except RuntimeError as error:
            without_kernel = missing_kernel(error)
            if without_kernel is None:
                raise
            raise without_kernel from error
        loss = loss.detach()
        if not replay:
            self.loss = loss
        return loss

    def _keep_random_state(self) -> None:
        cuda = torch.cuda.get_rng_state(self.w.device) if self.w.is_cuda else None
        self._random_state = (torch.get_rng_state(), cuda)

    def _restore_random_state(self) -> None:
        if self._random_state is None:
            raise ConfigError(
                "backward(replay=True): must be announced by Exchange(gradients=2) in the "
                "algorithm's exchanges, or by passes = 2 in a local optimizer"
            )
        cpu, cuda = self._random_state
        torch.set_rng_state(cpu)
        if cuda is not None:
            torch.cuda.set_rng_state(cuda, self.w.device)
