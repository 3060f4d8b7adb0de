"""Self-training on erased labels: pseudo-labels of a teacher that the server keeps.

Shenaj et al., "Learning Across Domains and Devices: Style-Driven Source-Free Domain Adaptation in
Clustered Federated Learning" (LADD), WACV 2023, without its clusters and style transfer. The
teacher is the initial model (pretrained on the server: ``load_from`` or ``model.weights``). Every
few rounds it is replaced by the global model, from some round on by the mean of the global models
of these rounds (SWA). It runs in eval mode, and its BatchNorm normalizes by the batch.
"""

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from fedseg.config.arguments import Share
from fedseg.core.aggregate import Aggregate
from fedseg.core.client import Client
from fedseg.core.flat import FlatModel
from fedseg.core.forward import total_loss
from fedseg.core.local_loss import LocalLoss
from fedseg.core.messages import Payload
from fedseg.core.passes import outputs_at
from fedseg.core.server import Server
from fedseg.errors import ConfigError
from fedseg.local_losses.counting import count_by_group
from fedseg.models.losses import CrossEntropy, OHEMCrossEntropy
from fedseg.models.segmentor import Segmentor
from fedseg.names import ERASED
from fedseg.registry import LOCAL_LOSSES
from fedseg.units import DIGITS

TEACHER = "teacher"
COUNT = "teacher_models"  # of which the teacher is the mean


@LOCAL_LOSSES.register_module()
class SelfTraining(LocalLoss):
    """The model's loss with the teacher's labels in place of erased ones; others stay.

    A prediction counts if its probability is above ``threshold``, or if it is among the ``share``
    most confident ones of its class in its image. The loss is a mean over all pixels but void and
    padding. The teacher travels to the clients in every round.

    Args:
        threshold: probability above which a pseudo-label counts.
        share: of the pixels of a class in an image that count in any case.
        every: rounds between updates of the teacher; 0: it stays the initial model.
        average_from: round from which the teacher is an average; before it is the global model.
    """

    payloads = (Payload(TEACHER, None, broadcast=True),)

    def __init__(
        self,
        threshold: Share = 0.9,
        share: Share = 0.66,
        every: NonNegativeInt = 5,
        average_from: PositiveInt = 1,
    ) -> None:
        self.threshold = threshold
        self.share = share
        self.every = every
        self.average_from = average_from

    def setup(self, flat: FlatModel) -> None:
        if not isinstance(flat.model, Segmentor) or not isinstance(
            flat.model.criterion, CrossEntropy | OHEMCrossEntropy
        ):
            raise ConfigError(
                "local_loss: SelfTraining needs a model of type Segmentor whose loss is "
                f"CrossEntropy or OHEMCrossEntropy, not {type(flat.model).__name__}"
            )
        self.model = flat.model
        self.initial = flat.w.clone()

    def receive(self, client: Client) -> None:
        teacher = client.payloads[TEACHER]
        # zeros in the first round
        self.teacher = torch.where(teacher.any(), teacher, self.initial)

    def loss(self, client: Client) -> Tensor:
        model = self.model
        labels = client.batch["data_samples"]
        guessed = client.once_per_batch(TEACHER, lambda: self._guess(client))
        targets = torch.where(guessed >= 0, guessed, labels)
        total = total_loss(model.losses(model.outputs(client.batch["inputs"]), targets))
        if not isinstance(model.criterion, CrossEntropy):  # OHEM's mean is over all pixels already
            return total
        erased = (targets == ERASED).sum()
        valid = (labels != model.criterion.ignore_index).sum()
        return total * (1 - erased / valid.clamp(min=1))

    def _guess(self, client: Client) -> Tensor:
        """The teacher's labels of the batch's erased pixels, int64 [B, H, W]; -1: none."""
        logits = outputs_at(client, self.teacher)
        erased = client.batch["data_samples"] == ERASED
        return confident(logits, erased, self.threshold, self.share)

    def step(self, server: Server, aggregate: Aggregate) -> None:
        if not server.state[TEACHER].any():
            server.state[TEACHER] = self.initial.to(server.state[TEACHER], copy=True)
        if not self.every or server.round % self.every:
            return
        w = server.w.to(server.state[TEACHER].dtype, copy=True)  # the server changes its own
        count = server.state.get(COUNT, torch.zeros_like(w[0]))
        if server.round < self.average_from:
            server.state[TEACHER] = w
            return
        server.state[TEACHER] = (server.state[TEACHER] * count + w) / (count + 1)
        server.state[COUNT] = count + 1


def confident(logits: Tensor, erased: Tensor, threshold: float, share: float) -> Tensor:
    """The most probable class where it counts and the label is erased, else -1, int64 [B, H, W].

    It counts above the threshold. Of n erased pixels of an image that are predicted as a class the
    ``ceil(share n)`` most probable ones count in any case, and those that equal the last of them.

    Args:
        logits: [B, C, H, W].
        erased: bool [B, H, W].
    """
    num_classes = logits.shape[1]
    probabilities, classes = logits.softmax(1).max(1)
    values = probabilities.flatten(1)
    groups = torch.where(erased, classes, num_classes).flatten(1)  # the last group: not erased
    lowest = _lowest_of_share(values, groups, num_classes + 1, share)
    in_share = (values >= lowest.gather(1, groups)).view_as(erased)
    counts = in_share | (probabilities > threshold)
    return torch.where(counts & erased, classes, -1)


def _lowest_of_share(values: Tensor, groups: Tensor, num_groups: int, share: float) -> Tensor:
    """The ``ceil(share n)``-th largest of the n values of every group, [B, num_groups]; or inf.

    Args:
        values: probabilities [B, N].
        groups: their numbers, int64 [B, N].
    """
    sizes = count_by_group(groups, num_groups)
    chosen = (share * sizes.double()).round(decimals=DIGITS).ceil().long()
    # by group, the largest first: halves of probabilities stay within a group's unit
    order = (groups - values.double() / 2).argsort(1)
    starts = sizes.cumsum(1) - sizes
    last = (starts + chosen - 1).clamp(0, values.shape[1] - 1)
    lowest = values.gather(1, order.gather(1, last))
    return torch.where(chosen > 0, lowest, torch.inf)
