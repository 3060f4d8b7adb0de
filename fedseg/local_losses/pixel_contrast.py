"""Contrast of pixels against prototypes of classes, and the labels that say which pixels take part.

Embeddings of pixels are the decoder's features through ``model.projection``, scaled to length 1, at
the resolution of the features. A label is erased (:data:`fedseg.names.ERASED`) where the client
does not know its class; void and padding are ignored everywhere.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from fedseg.core.client import Client
from fedseg.core.client_data import ClientData
from fedseg.core.local_loss import full_precision
from fedseg.core.passes import at_rest, client_batches
from fedseg.local_losses.counting import count_by_group
from fedseg.models.losses import low
from fedseg.models.segmentor import Segmentor, resize
from fedseg.names import ERASED

NONE = -1  # the label of pixels without one


def contrast(
    anchors: Tensor, labels: Tensor, prototypes: Tensor, classes: Tensor, temperature: float
) -> Tensor:
    """Mean over anchors of ``mean_p -log(e^(a.p/t) / (e^(a.p/t) + sum_n e^(a.n/t)))``.

    p are the prototypes of the anchor's class, n those of other classes. Anchors without p do not
    count, so those with the label ``NONE`` do not.

    Args:
        anchors: embeddings [A, D].
        labels: the anchors' classes [A].
        prototypes: [P, D].
        classes: the prototypes' classes [P].
        temperature: t.
    """
    scores = anchors @ prototypes.T / temperature
    same_class = labels[:, None] == classes
    negatives = scores.masked_fill(same_class, low(scores.dtype)).logsumexp(1, keepdim=True)
    # -log(e^s / (e^s + e^negatives)) = log(1 + e^(negatives - s))
    losses = torch.logaddexp(negatives - scores, torch.zeros_like(scores))
    num_positives = same_class.sum(1)
    anchor_losses = (losses * same_class).sum(1) / num_positives.clamp(min=1)
    num_anchors = (num_positives > 0).sum()
    return anchor_losses.sum() / num_anchors.clamp(min=1)


def choose_anchors(labels: Tensor, limit: int, num_classes: int) -> tuple[Tensor, Tensor]:
    """Draw pixels at random, of each class up to the same number: their indices and labels, [K].

    Of the P classes that the labels have, each gets up to ``max(1, limit // P)`` pixels. K depends
    on sizes alone, so that nothing waits for the device; places that no pixel takes have the label
    ``NONE``. Drawn by the device's generator, which SAM's second pass finds as the first one did.

    Args:
        labels: classes of pixels, int64 [N], or ``NONE``.
        limit: of the number of anchors.
        num_classes: C.
    """
    groups = labels + 1  # 0: without a label
    sizes = count_by_group(groups[None], num_classes + 1)[0]
    num_present = (sizes[1:] > 0).sum()
    quota = (limit // num_present.clamp(min=1)).clamp(min=1)
    # by class, in random order within each
    order = (groups + torch.rand_like(groups, dtype=torch.float64)).argsort()
    groups = groups[order]
    starts = sizes.cumsum(0) - sizes
    ranks = torch.arange(len(groups), device=groups.device) - starts[groups]
    chosen = (groups > 0) & (ranks < quota)
    num_places = min(len(labels), max(limit, num_classes))
    places = chosen.sort(descending=True, stable=True).indices[:num_places]
    anchor_labels = (groups[places] - 1).masked_fill(~chosen[places], NONE)
    return order[places], anchor_labels


def embed(model: Segmentor, features: Tensor) -> Tensor:
    """Embeddings [B, D, h, w] of features, of length 1."""
    return F.normalize(model.projection(full_precision(features)), dim=1)


def small_labels(labels: Tensor, size: torch.Size, num_classes: int) -> Tensor:
    """Labels at the size of features, int64 [B, h, w]; void and padding are ``NONE``."""
    small = F.interpolate(labels[:, None].float(), size, mode="nearest-exact")[:, 0].long()
    is_class = (small >= 0) & (small < num_classes)
    return small.masked_fill(~is_class & (small != ERASED), NONE)


def pseudo_labels(logits: Tensor, labels: Tensor, threshold: float) -> Tensor:
    """Predicted classes of erased pixels with a probability above a threshold, else ``NONE``.

    Args:
        logits: [B, C, h, w], resized to the labels.
        labels: [B, H, W].
        threshold: a probability.
    """
    probabilities, classes = resize(logits, labels.shape[-2:]).softmax(1).max(1)
    counts = (labels == ERASED) & (probabilities > threshold)
    return torch.where(counts, classes, NONE)


def image_prototypes(
    client: Client, model: Segmentor, data: ClientData, threshold: float
) -> tuple[Tensor, Tensor]:
    """The mean embedding of each class in each of a client's images, under its present model.

    Args:
        model: the client's.
        threshold: probability above which the model's prediction labels an erased pixel.

    Returns:
        Prototypes [P, D] and their classes [P].
    """
    sums = []
    counts = []
    for batch in client_batches(client, data):
        labels = batch["data_samples"]
        with torch.no_grad(), at_rest(model):
            with client.autocast():
                layers = model.layers(batch["inputs"], auxiliary=False)
            vectors = embed(model, layers["pixel_features"])
        logits = resize(layers["logits"][0], labels.shape[-2:], model.align_corners)
        num_classes = logits.shape[1]
        small = small_labels(labels, vectors.shape[-2:], num_classes)
        small = torch.where(small == ERASED, pseudo_labels(logits, small, threshold), small)
        classes = torch.arange(num_classes, device=small.device).view(-1, 1, 1)
        one_hot = (small[:, None] == classes).to(vectors.dtype).flatten(2)  # [B, C, h w]
        sums.append(one_hot @ vectors.flatten(2).mT)  # [B, C, D]
        counts.append(one_hot.sum(2))  # [B, C]
    all_sums = torch.cat(sums)
    all_counts = torch.cat(counts)
    images, prototype_classes = torch.nonzero(all_counts, as_tuple=True)
    prototype_sums = all_sums[images, prototype_classes]
    prototype_counts = all_counts[images, prototype_classes]
    return prototype_sums / prototype_counts[:, None], prototype_classes
