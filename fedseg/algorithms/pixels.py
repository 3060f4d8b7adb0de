"""Local losses for pixels: FedSeg, prototypes on the server, class weights.

Miao, Yang, Fan, Yang, "FedSeg: Class-Heterogeneous Federated Learning for Semantic Segmentation",
CVPR 2023. A label is erased (:data:`fedseg.names.ERASED`) where the client does not know its class;
void and padding are ignored everywhere. Embeddings of pixels are the decoder's features through
``model.projection``, scaled to length 1, at the resolution of the features. Where the paper is
silent or its code differs:

- Fixed networks run in eval mode, and their BatchNorm normalizes by the batch, as in MOON.
- Prototypes come from one augmented view of each image, the same in every round.
- Pseudo-labels are those of erased pixels, for prototypes as for anchors.
"""

from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from annotated_types import Ge
from pydantic import PositiveInt
from torch import Tensor

from fedseg.algorithms.passes import at_rest, client_batches, outputs_at
from fedseg.config.schema import Float32, NonNegative, Positive, Share
from fedseg.core.aggregate import Aggregate
from fedseg.core.client import Client
from fedseg.core.flat import FlatModel
from fedseg.core.forward import forward, total_loss
from fedseg.core.local_loss import LocalLoss, full_precision
from fedseg.core.messages import Payload
from fedseg.core.server import Server
from fedseg.errors import ConfigError, DataError
from fedseg.models.classifier import record_calls
from fedseg.models.losses import PixelLoss, low
from fedseg.models.segmentor import Segmentor, resize
from fedseg.names import ERASED
from fedseg.registry import LOCAL_LOSSES

NONE = -1  # the label of pixels without one
UNIT = 1e6  # pixels: a payload may not be much longer than the model
PIXELS, IMAGE_PIXELS = "class_pixels", "class_image_pixels"  # of each class, of images with it


def contrast(
    anchors: Tensor, labels: Tensor, prototypes: Tensor, classes: Tensor, temperature: float
) -> Tensor:
    """Mean over anchors of ``mean_p -log(e^(a.p/t) / (e^(a.p/t) + sum_n e^(a.n/t)))``.

    p are the prototypes of the anchor's class, n those of others; anchors without p do not count.

    Args:
        anchors: [A, D]. labels: their classes [A]. prototypes: [P, D]. classes: theirs [P].
    """
    scores = anchors @ prototypes.T / temperature
    same = labels[:, None] == classes
    others = scores.masked_fill(same, low(scores.dtype)).logsumexp(1, keepdim=True)
    losses = torch.logaddexp(others - scores, torch.zeros_like(scores))
    count = same.sum(1)
    each = (losses * same).sum(1) / count.clamp(min=1)
    return each.sum() / (count > 0).sum().clamp(min=1)


def choose_anchors(labels: Tensor, most: int) -> Tensor:
    """Indices of up to ``most`` pixels, drawn at random, of each class up to the same number.

    Drawn by torch's CPU generator, which SAM's second pass finds as the first one did.
    """
    classes = labels[labels != NONE].unique().tolist()
    chosen = [labels.new_empty(0)]
    for class_ in classes:
        (pixels,) = torch.nonzero(labels == class_, as_tuple=True)
        drawn = torch.randperm(len(pixels))[: max(1, most // len(classes))]
        chosen.append(pixels[drawn.to(pixels.device)])
    return torch.cat(chosen)


class OfPixels(LocalLoss):
    """Base: for segmentation only."""

    def setup(self, flat: FlatModel) -> None:
        if not isinstance(flat.model, Segmentor):
            raise ConfigError(
                f"local_loss: {type(self).__name__} is for segmentation; use a model of type "
                f"Segmentor, which {type(flat.model).__name__} is not, or another loss"
            )


class PixelContrast(OfPixels):
    """Base: the model's loss plus the contrast of pixels against prototypes.

    Attributes:
        prototypes, classes: for the present client; None: it has none.
    """

    prototypes: Tensor | None = None
    classes: Tensor | None = None

    def __init__(self, temperature: float, anchors: int) -> None:
        self.temperature, self.anchors = temperature, anchors

    def term(self, client: Client, features: Tensor, labels: Tensor) -> Tensor:
        """The contrast of a batch, from its features and labels at their size."""
        flat = labels.flatten()
        chosen = choose_anchors(flat, self.anchors)
        vectors = embed(client, features).movedim(1, -1).flatten(0, 2)[chosen]
        return contrast(vectors, flat[chosen], self.prototypes, self.classes, self.temperature)


def embed(client: Client, features: Tensor) -> Tensor:
    """Embeddings [B, D, h, w] of features, of length 1."""
    return F.normalize(client.model.projection(full_precision(features)), dim=1)


def small_labels(labels: Tensor, size: torch.Size, num_classes: int) -> Tensor:
    """Labels at the size of features, int64 [B, h, w]; void and padding are ``NONE``."""
    small = F.interpolate(labels[:, None].float(), size, mode="nearest-exact")[:, 0].long()
    return small.masked_fill((small >= num_classes) & (small != ERASED), NONE)


def image_means(client: Client, data: Any, threshold: float | None) -> list[tuple[Tensor, Tensor]]:
    """For each batch of the client's images: sums [B, C, D] of embeddings by class, and counts.

    Args:
        threshold: probability above which the model's prediction labels an erased pixel.
    """
    means, model = [], client.model
    layer, end = model.embedding
    for batch in client_batches(client, data):
        with torch.no_grad(), at_rest(model), record_calls(layer) as calls:
            with client.autocast():
                logits = forward(model, batch, "tensor")
            vectors = embed(client, calls[0][end])
        labels = small_labels(batch["data_samples"], vectors.shape[-2:], logits.shape[1])
        if threshold is not None:
            labels = pseudo_labels(logits, labels, threshold, own=True)
        ids = torch.arange(logits.shape[1], device=labels.device)
        one_hot = (labels[:, None] == ids.view(-1, 1, 1)).to(vectors.dtype).flatten(2)
        means.append((one_hot @ vectors.flatten(2).mT, one_hot.sum(2)))
    return means


def pseudo_labels(logits: Tensor, labels: Tensor, threshold: float, own: bool) -> Tensor:
    """Predictions of erased pixels with a probability above a threshold, else ``NONE``.

    Args:
        own: other pixels keep their labels; they get none otherwise.
    """
    best, classes = resize(logits, labels.shape[-2:]).softmax(1).max(1)
    erased = labels == ERASED
    predicted = torch.where(best > threshold, classes, NONE)
    return torch.where(erased, predicted, labels if own else NONE)


@LOCAL_LOSSES.register_module()
class FedSeg(PixelContrast):
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
        super().__init__(temperature, anchors)
        self.background, self.known, self.threshold = background, known, threshold
        self.contrast, self.pseudo = contrast, pseudo

    def setup(self, flat: FlatModel) -> None:
        super().setup(flat)
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


@LOCAL_LOSSES.register_module()
class ClassWeights(OfPixels):
    """Median frequency balancing (Eigen and Fergus, ICCV 2015) over the clients.

    The frequency of a class is the number of its pixels divided by the labeled pixels of the images
    that contain it. Each client sends both numbers for every class, of the images of its local
    steps, and the server sums them over the round's participants. In the next round the weight of
    class c is the median of the classes' frequencies divided by that of c; in the first round all
    weights are equal. The weighted cross-entropy of all outputs of the network replaces the model's
    own loss.

    Args:
        most: largest weight, also of classes that did not occur.
    """

    payloads = (
        Payload(PIXELS, ("classes",), broadcast=True),
        Payload(IMAGE_PIXELS, ("classes",), broadcast=True),
    )

    def __init__(self, most: Annotated[Float32, Ge(1)] = 10.0) -> None:
        self.most = most

    def receive(self, client: Client) -> None:
        pixels, image_pixels = client.payloads[PIXELS], client.payloads[IMAGE_PIXELS]
        self.weights = median_frequency_weights(pixels.float(), image_pixels.float(), self.most)
        self.pixels, self.image_pixels = torch.zeros(2, len(pixels), device=pixels.device)

    def loss(self, client: Client) -> Tensor:
        model, labels = client.model, client.batch["data_samples"].long()
        classes, ignored = len(self.pixels), model.ignore_index
        if classes <= ERASED:
            labels = labels.masked_fill(labels == ERASED, ignored)
        known = labels != ignored
        other = known & ((labels < 0) | (labels >= classes))
        if labels.device.type == "cpu" and other.any():  # elsewhere it would wait for the device
            raise DataError(
                f"data_samples: label {labels[other][0]} is neither one of {classes} classes nor "
                f"the loss's ignore_index {ignored}: correct the data set's labels, "
                "model.num_classes or model.loss.ignore_index"
            )
        index = labels.masked_fill(~known, classes).flatten(1)  # the rest is counted last
        counted = index.new_zeros(len(index), classes + 1)
        counted = counted.scatter_add_(1, index, torch.ones_like(index))[:, :-1]  # by image
        self.pixels += counted.sum(0) / UNIT
        self.image_pixels += ((counted > 0) * counted.sum(1, keepdim=True)).sum(0) / UNIT
        losses = []
        for number, logits in enumerate(model.outputs(client.batch["inputs"])):
            logits = resize(logits, labels.shape[-2:])
            options = {"weight": self.weights.to(logits.dtype), "ignore_index": ignored}
            loss = F.cross_entropy(logits, labels, **options, reduction="sum")
            losses.append(loss * (model.aux_weight if number else 1))
        total = counted.sum(0).to(self.weights.dtype) @ self.weights
        return sum(losses) / total.clamp(min=1e-6)  # it may have no label

    def finish(self, client: Client) -> dict[str, Tensor]:
        dtype = client.w.dtype
        return {PIXELS: self.pixels.to(dtype), IMAGE_PIXELS: self.image_pixels.to(dtype)}

    def step(self, server: Server, sums: Aggregate) -> None:
        for name in (PIXELS, IMAGE_PIXELS):
            server.state[name] = sums.payload(name)


def median_frequency_weights(pixels: Tensor, image_pixels: Tensor, most: float) -> Tensor:
    """The weight of each class, float [C]; 1 for all where no class has a pixel.

    Args:
        pixels: of each class. image_pixels: of all classes in the images that contain it.
        most: largest weight, also of classes without a pixel.
    """
    occurs = (pixels > 0) & (image_pixels > 0)
    frequencies = torch.where(occurs, pixels / image_pixels, torch.nan)
    median = frequencies.nanquantile(0.5)  # of an even number of classes the mean of the middle two
    weights = torch.where(occurs, (median / frequencies).clamp(max=most), most)
    return torch.where(occurs.any(), weights, 1.0)
