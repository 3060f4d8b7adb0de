"""FedSeg: erased pixels are of unknown classes, and pixels are drawn to prototypes of their class.

Miao, Yang, Fan, Yang, "FedSeg: Class-Heterogeneous Federated Learning for Semantic Segmentation",
CVPR 2023. Where the paper is silent or its code differs:

- Fixed networks run in eval mode, and their BatchNorm normalizes by the batch, as in MOON.
- Prototypes come from one augmented view of each image, the same in every round.
- Pseudo-labels are those of erased pixels, for prototypes as for anchors.
"""

from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from fedseg.config.schema import NonNegative, Positive, Share
from fedseg.core.client import Client
from fedseg.core.flat import FlatModel
from fedseg.core.forward import total_loss
from fedseg.core.local_loss import LocalLoss
from fedseg.core.passes import outputs_at
from fedseg.errors import ConfigError
from fedseg.local_losses.pixel_contrast import (
    NONE,
    choose_anchors,
    contrast,
    embed,
    image_means,
    pseudo_labels,
    small_labels,
)
from fedseg.local_losses.requirements import require_segmentor
from fedseg.models.classifier import record_calls
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
    and MIMELite twice more), and each step has another forward pass.

    Args:
        background: whether erased pixels have a loss.
        known: F are the client's classes (paper), or those in the batch's labels (code).
        contrast: weight of the contrast by labels; 0: none.
        pseudo: weight of the contrast by pseudo-labels; the paper's is 0.1 on Pascal VOC.
        temperature: of the contrast.
        threshold: probability above which a pseudo-label counts.
        anchors: pixels of a batch in each contrast, at most.
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
        require_segmentor(flat.model, self)
        if self.background and not isinstance(flat.model.criterion, PixelLoss):
            raise ConfigError(
                "local_loss.background: needs model.loss CrossEntropy or OHEMCrossEntropy, not "
                f"{type(flat.model.criterion).__name__}: take one of them, or set it to False"
            )

    def receive(self, client: Client) -> None:
        self.prototypes = self.unknown = None
        known = getattr(self.data.dataset, "known", None)
        if known is not None:
            classes, held = range(len(self.data.dataset.classes)), self.data.indices[client.id]
            ids = {c for i in held for c in known.get(i, classes)}
            if len(ids) < len(classes):  # else nothing is erased
                self.unknown = torch.tensor([c not in ids for c in classes]).to(client.w.device)
        if self.contrast or self.pseudo:
            means = image_means(client, self.data, self.threshold)
            sums, counts = (torch.cat(parts) for parts in zip(*means, strict=True))
            images, self.classes = torch.nonzero(counts, as_tuple=True)
            at = images, self.classes
            self.prototypes = sums[at] / counts[at][:, None]

    def loss(self, client: Client) -> Tensor:
        model, labels = client.model, client.batch["data_samples"]
        layer, end = model.embedding
        with record_calls(layer) as calls:
            outputs = model.outputs(client.batch["inputs"])
        unknown = self._unknown(labels)
        options = {} if unknown is None else {"unknown": unknown}
        total = total_loss(model.losses(outputs, labels, **options))
        if self.prototypes is None:
            return total
        features = calls[0][end]
        small = small_labels(labels, features.shape[-2:], outputs[0].shape[1])
        with torch.autocast(labels.device.type, enabled=False):
            if self.contrast:
                labeled = small.masked_fill(small == ERASED, NONE)
                total = total + self.contrast * self.term(client, features, labeled)
            if self.pseudo and self.unknown is not None:
                logits = outputs_at(client, client.start)
                guessed = pseudo_labels(logits, small, self.threshold, own=False)
                total = total + self.pseudo * self.term(client, features, guessed)
        return total

    def term(self, client: Client, features: Tensor, labels: Tensor) -> Tensor:
        """The contrast of a batch, from its features and labels at their size."""
        flat = labels.flatten()
        chosen = choose_anchors(flat, self.anchors)
        vectors = embed(client, features).movedim(1, -1).flatten(0, 2)[chosen]
        return contrast(vectors, flat[chosen], self.prototypes, self.classes, self.temperature)

    def _unknown(self, labels: Tensor) -> Tensor | None:
        """Mask over the classes outside F; None: F is every class, or nothing is asked for."""
        if not self.background or self.unknown is None:
            return None
        if self.known == "client":
            return self.unknown
        present = labels.new_zeros(256, dtype=torch.bool)
        present[labels.flatten()] = True
        unknown = ~present[: len(self.unknown)]
        return unknown if unknown.any() else None
