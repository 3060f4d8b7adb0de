"""FedSeg: erased pixels are of unknown classes, and pixels are drawn to prototypes of their class.

Miao, Yang, Fan, Yang, "FedSeg: Class-Heterogeneous Federated Learning for Semantic Segmentation",
CVPR 2023. Where the paper is silent or its code differs:

- Fixed networks run in eval mode, and their BatchNorm normalizes by the batch, as in MOON.
- Prototypes come from one augmented view of each image, the same in every round.
- Pseudo-labels are those of erased pixels, for prototypes as for anchors.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from fedseg.config.arguments import NonNegative, Positive, Share
from fedseg.core.client import Client
from fedseg.core.flat import FlatModel
from fedseg.core.forward import total_loss
from fedseg.core.local_loss import LocalLoss
from fedseg.core.passes import outputs_at
from fedseg.errors import ConfigError
from fedseg.local_losses.counting import count_by_group
from fedseg.local_losses.pixel_contrast import (
    NONE,
    choose_anchors,
    contrast,
    embed,
    image_prototypes,
    pseudo_labels,
    small_labels,
)
from fedseg.local_losses.requirements import require_pixel_features, require_segmentor
from fedseg.models.losses import PixelLoss
from fedseg.names import ERASED
from fedseg.registry import LOCAL_LOSSES


@LOCAL_LOSSES.register_module()
class FedSeg(LocalLoss):
    """Erased pixels are of any class that the client does not know; contrast to own prototypes.

    The cost of a labelled pixel is the cross-entropy, that of an erased one the negative logarithm
    of the probability of all classes outside F, whatever ``model.loss`` makes of pixels' losses. On
    auxiliary outputs too.

    Added is the contrast of pixels with a label, and of erased ones with the pseudo-labels of the
    received model. Prototypes are the mean embeddings of each class in each of the client's
    images under the received model. A client passes over its images once more a round (with MIME
    and MIMELite twice more), and each batch has another forward pass, whose pseudo-labels SAM's
    second pass uses, too.

    Args:
        background: whether erased pixels have a loss.
        known: F are the client's classes (paper), or those in the batch's labels (code).
        contrast: weight of the contrast by labels; 0: none.
        pseudo: weight of the contrast by pseudo-labels; the paper's is 0.1 on Pascal VOC.
        temperature: of the contrast.
        threshold: probability above which a pseudo-label counts.
        anchors: pixels of a batch in each contrast, at most.

    Attributes:
        unknown: mask over the classes that the present client does not know; None: it knows all.
        prototypes, classes: mean embeddings [P, D] for the present client, and their classes [P].
    """

    def __init__(
        self,
        background: bool = True,
        known: Literal["client", "batch"] = "client",
        contrast: NonNegative = 1.0,
        pseudo: NonNegative = 1.0,
        temperature: Positive = 0.07,
        threshold: Share = 0.8,
        anchors: PositiveInt = 4096,
    ) -> None:
        self.background = background
        self.known = known
        self.contrast = contrast
        self.pseudo = pseudo
        self.temperature = temperature
        self.threshold = threshold
        self.anchors = anchors

    def setup(self, flat: FlatModel) -> None:
        self.model = require_segmentor(flat.model, self)
        if self.background and not isinstance(self.model.criterion, PixelLoss):
            raise ConfigError(
                "local_loss.background: needs model.loss CrossEntropy or OHEMCrossEntropy, not "
                f"{type(self.model.criterion).__name__}: take one of them, or set it to False"
            )
        self._compares = self.contrast > 0 or self.pseudo > 0
        if self._compares:
            require_pixel_features(self.model, self)

    def receive(self, client: Client) -> None:
        self.unknown = self._unknown_classes(client)
        if self._compares:
            prototypes = image_prototypes(client, self.model, self.data, self.threshold)
            self.prototypes, self.classes = prototypes

    def _unknown_classes(self, client: Client) -> Tensor | None:
        """Mask over the classes that the client does not know, bool [C]; None: it knows all."""
        dataset = self.data.dataset
        known_by_image = getattr(dataset, "known", None)
        if known_by_image is None:
            return None
        every_class = range(len(dataset.classes))
        known: set[int] = set()
        for image in self.data.indices[client.id]:
            known.update(known_by_image.get(image, every_class))
        if len(known) == len(every_class):
            return None
        return torch.tensor([c not in known for c in every_class]).to(client.w.device)

    def loss(self, client: Client) -> Tensor:
        labels = client.batch["data_samples"]
        layers = self.model(client.batch["inputs"], mode="layers")
        total = self._labels_loss(layers["logits"], labels)
        if not self._compares:
            return total
        num_classes = layers["logits"][0].shape[1]
        features = layers["pixel_features"]
        small = small_labels(labels, features.shape[-2:], num_classes)
        with torch.autocast(labels.device.type, enabled=False):
            embeddings = embed(self.model, features)
            if self.contrast:
                labelled = small.masked_fill(small == ERASED, NONE)
                total = total + self.contrast * self._contrast(embeddings, labelled, num_classes)
            if self.pseudo and self.unknown is not None:
                guessed = client.once_per_batch(
                    "fedseg_pseudo_labels", lambda: self._pseudo_labels(client, small)
                )
                total = total + self.pseudo * self._contrast(embeddings, guessed, num_classes)
        return total

    def _labels_loss(self, logits: Sequence[Tensor], labels: Tensor) -> Tensor:
        """Cross-entropy of labelled pixels, and of erased ones for the classes outside F."""
        model = self.model
        if not self.background or self.unknown is None:
            return total_loss(model.losses(logits, labels))
        if self.known == "client":
            return total_loss(model.losses(logits, labels, unknown=self.unknown))
        unknown = absent_classes(labels, len(self.unknown))
        # a batch with every class: no class is left for an erased pixel, and it has no loss
        no_loss = (labels == ERASED) & ~unknown.any()
        labels = labels.masked_fill(no_loss, model.ignore_index)
        return total_loss(model.losses(logits, labels, unknown=unknown))

    def _pseudo_labels(self, client: Client, labels: Tensor) -> Tensor:
        """Those of the received model for the batch's erased pixels."""
        return pseudo_labels(outputs_at(client, client.start), labels, self.threshold)

    def _contrast(self, embeddings: Tensor, labels: Tensor, num_classes: int) -> Tensor:
        """The contrast of a batch, from its embeddings [B, D, h, w] and labels [B, h, w]."""
        pixels, classes = choose_anchors(labels.flatten(), self.anchors, num_classes)
        anchors = embeddings.movedim(1, -1).flatten(0, 2)[pixels]
        return contrast(anchors, classes, self.prototypes, self.classes, self.temperature)


def absent_classes(labels: Tensor, num_classes: int) -> Tensor:
    """Mask over the classes that no label of a batch has, bool [C]."""
    labels = labels.flatten().long()
    is_class = (labels >= 0) & (labels < num_classes)
    groups = torch.where(is_class, labels, num_classes)  # void and erased ones are counted last
    return count_by_group(groups[None], num_classes + 1)[0, :-1] == 0
