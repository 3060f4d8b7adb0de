"""Contrast of pixels against prototypes of classes, and the labels that say which pixels take part.

Embeddings of pixels are the decoder's features through ``model.projection``, scaled to length 1, at
the resolution of the features. A label is erased (:data:`fedseg.names.ERASED`) where the client
does not know its class; void and padding are ignored everywhere.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fedseg.core.client import Client
from fedseg.core.forward import forward
from fedseg.core.local_loss import full_precision
from fedseg.core.passes import at_rest, client_batches
from fedseg.models.classifier import record_calls
from fedseg.models.losses import low
from fedseg.models.segmentor import resize
from fedseg.names import ERASED

NONE = -1  # the label of pixels without one


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
