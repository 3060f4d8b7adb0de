"""Losses of pixels and of regions, from logits of any resolution.

A loss is called as ``loss(logits, labels)`` with float logits [B, C, h, w] and labels [B, H, W].
A ``PixelLoss`` resizes the logits bilinearly to H x W itself, which ``resizes = True`` says to the
segmentor; the other losses get logits at the labels' size. Every loss is differentiable twice, has
deterministic kernels on CUDA, and waits for no device.
"""

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from fedseg.config.arguments import NonNegative, PositiveShare, Share
from fedseg.errors import DataError
from fedseg.names import ERASED
from fedseg.registry import MODELS
from fedseg.units import floor_share


def compute_dtype(tensor: Tensor) -> torch.dtype:
    """float64 stays float64; every other float type is computed in float32."""
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def low(dtype: torch.dtype) -> float:
    """A number whose exponential is 0, and that stays finite in sums of a few."""
    return torch.finfo(dtype).min / 4


class PixelLoss(nn.Module):
    """Base of losses that are a weighted sum of the pixels' cross-entropies.

    A subclass defines ``reduce`` and, for means over a data set, ``weight``.

    Args:
        ignore_index: label of pixels without a loss.
    """

    resizes = True

    def __init__(self, ignore_index: int = 255) -> None:
        super().__init__()
        self.ignore_index = ignore_index

    def forward(self, logits: Tensor, labels: Tensor, unknown: Tensor | None = None) -> Tensor:
        """Scalar loss, float32 (float64 for float64 logits), whatever autocast says.

        Args:
            logits: float [B, C, h, w].
            labels: integer [B, H, W], class ids or ``ignore_index``.
            unknown: bool [C], which classes a pixel may have whose label is erased
                (:data:`fedseg.names.ERASED`): it costs the negative logarithm of their probability.

        Raises:
            DataError: labels are no integers; on a CPU also for ids that are no classes. On a GPU
                a check would wait for the device, and PyTorch's kernel stops with an assertion.
        """
        if labels.is_floating_point():
            raise DataError(f"data_samples: must be class ids, integers, not {labels.dtype}")
        with torch.autocast(logits.device.type, enabled=False):
            logits = logits.to(compute_dtype(logits))
            if logits.shape[-2:] != labels.shape[-2:]:
                logits = F.interpolate(logits, labels.shape[-2:], mode="bilinear")
            labels = labels.long()
            valid = labels != self.ignore_index
            if unknown is None:
                losses = cross_entropies(logits, labels, self.ignore_index)
            else:
                erased = labels == ERASED
                labels = labels.masked_fill(erased, self.ignore_index)
                losses = cross_entropies(logits, labels, self.ignore_index)
                losses = torch.where(erased, _erased_losses(logits, unknown), losses)
            return self.reduce(losses.flatten(1), valid)

    def reduce(self, losses: Tensor, valid: Tensor) -> Tensor:
        """Scalar from losses [B, H W], zero where ignored, and ``valid``, bool [B, H, W]."""
        raise NotImplementedError

    def weight(self, labels: Tensor) -> int:
        """The weight of a batch in the mean over a data set: its labeled pixels."""
        return int(((labels != self.ignore_index) & (labels != ERASED)).sum())


def cross_entropies(
    logits: Tensor, labels: Tensor, ignore_index: int, weight: Tensor | None = None
) -> Tensor:
    """Cross-entropy of each pixel, [B, H, W]; 0 where it is ignored.

    Sums and means are taken of it, since PyTorch's own have no deterministic kernel on CUDA.

    Args:
        logits: float [B, C, H, W].
        labels: int64 [B, H, W].
        ignore_index: label of pixels without a loss.
        weight: factor of each class, float [C].

    Raises:
        DataError: on a CPU, a label is neither a class nor ``ignore_index``.
    """
    try:  # labels are looked at only after a failure, so that no step waits for the device
        return F.cross_entropy(logits, labels, weight, ignore_index=ignore_index, reduction="none")
    except IndexError as error:
        raise _explain_labels(labels, logits.shape[1], ignore_index) from error


def _explain_labels(labels: Tensor, num_classes: int, ignore_index: int) -> DataError:
    """The error for labels some of which are no classes; it names one of them."""
    wrong = (labels != ignore_index) & ((labels < 0) | (labels >= num_classes))
    return DataError(
        f"data_samples: label {int(labels[wrong][0])} is neither one of {num_classes} classes nor "
        f"the loss's ignore_index {ignore_index}: correct the data set's labels, "
        "model.num_classes or model.loss.ignore_index"
    )


def _erased_losses(logits: Tensor, unknown: Tensor) -> Tensor:
    """Minus log of the probability of the unknown classes, [B, H, W].

    ``log(sum_c e^z_c / sum_unknown e^z_c) = log(1 + e^(known - other))`` with the log-sum-exp of
    the known classes and of the others.
    """
    mask = unknown.view(-1, 1, 1)
    lowest = low(logits.dtype)
    known = logits.masked_fill(mask, lowest).logsumexp(1)
    other = logits.masked_fill(~mask, lowest).logsumexp(1)
    return torch.logaddexp(known - other, torch.zeros_like(other))


@MODELS.register_module()
class CrossEntropy(PixelLoss):
    """Mean cross-entropy over the labeled pixels of the batch; 0 if no pixel has a label."""

    def reduce(self, losses: Tensor, valid: Tensor) -> Tensor:
        return losses.sum() / valid.sum().clamp(min=1)


@MODELS.register_module()
class OHEMCrossEntropy(PixelLoss):
    """Online hard example mining: the mean of each image's highest pixel losses, then over images.

    Of an image the ``floor(ratio H W)`` pixels with the highest loss count (at least one);
    ignored pixels have loss zero and can be among them. FedDrive (Fantauzzo et al., IROS 2022)
    trains with ratio 0.25. Pixels that tie at the threshold share what is left of the weight.

    Args:
        ratio: share of the pixels that count.
        ignore_index: label of pixels without a loss.
    """

    def __init__(self, ratio: PositiveShare = 0.25, ignore_index: int = 255) -> None:
        super().__init__(ignore_index)
        self.ratio = ratio

    def weight(self, labels: Tensor) -> int:
        return len(labels)  # the mean is over images

    def num_hard(self, num_pixels: int) -> int:
        return max(1, floor_share(self.ratio, num_pixels))

    def reduce(self, losses: Tensor, valid: Tensor) -> Tensor:
        k = self.num_hard(losses.shape[1])
        with torch.no_grad():
            lowest = losses.topk(k, dim=1, sorted=False).values.amin(1, keepdim=True)
            above = (losses > lowest).to(losses.dtype)
            ties = (losses == lowest).to(losses.dtype)
            share = (k - above.sum(1, keepdim=True)) / ties.sum(1, keepdim=True)
            weights = above + share * ties
        return (weights * losses).sum() / (k * len(losses))


@MODELS.register_module()
class Focal(PixelLoss):
    """Mean over the labeled pixels of ``(1 - p)^gamma (-log p)`` (Lin et al., ICCV 2017).

    Of the softmax; MMSegmentation's ``FocalLoss`` is of sigmoids.

    Args:
        gamma: 0 is cross-entropy.
        ignore_index: label of pixels without a loss.
    """

    def __init__(self, gamma: NonNegative = 2.0, ignore_index: int = 255) -> None:
        super().__init__(ignore_index)
        self.gamma = gamma

    def reduce(self, losses: Tensor, valid: Tensor) -> Tensor:
        # at p = 1 the power of 0 would have no finite derivative for a gamma below 1
        wrong = (-torch.expm1(-losses)).clamp(min=1e-30)
        return (wrong**self.gamma * losses).sum() / valid.sum().clamp(min=1)


@MODELS.register_module()
class OhemCrossEntropy(nn.Module):
    """MMSegmentation's hard examples: the pixels of a batch whose class has a low probability.

    The mean cross-entropy of the labeled pixels with a probability below a threshold: ``thres``, or
    the probability of the pixel at position ``min_kept`` (from 0, ascending), if that is higher.
    0 with a zero gradient where no pixel counts; MMSegmentation's own loss has no gradient there.

    Args:
        thres: lowest threshold.
        min_kept: pixels of a batch that count at least, if it has more labeled ones.
        ignore_index: label of pixels without a loss.
    """

    def __init__(
        self, thres: Share = 0.7, min_kept: PositiveInt = 100_000, ignore_index: int = 255
    ) -> None:
        super().__init__()
        self.thres = thres
        self.min_kept = min_kept
        self.ignore_index = ignore_index

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Scalar loss, at least float32: logits [B, C, H, W], labels [B, H, W]."""
        with torch.autocast(logits.device.type, enabled=False):
            logits = logits.to(compute_dtype(logits))
            labels = labels.long()
            losses = cross_entropies(logits, labels, self.ignore_index).flatten()
            with torch.no_grad():
                labeled = (labels != self.ignore_index).flatten()
                hard = self._hard(torch.exp(-losses), labeled)
            return (losses * hard).sum() / hard.sum().clamp(min=1)

    def _hard(self, probabilities: Tensor, labeled: Tensor) -> Tensor:
        """Mask over the pixels that count, bool [pixels]."""
        ordered = probabilities.masked_fill(~labeled, 2).sort().values  # unlabeled ones at the end
        position = (labeled.sum() - 1).clamp(min=0, max=self.min_kept)
        threshold = ordered.index_select(0, position.view(1)).clamp(min=self.thres)
        return labeled & (probabilities < threshold)


class RegionLoss(nn.Module):
    """Base of losses of the labeled pixels' probabilities, over the whole batch.

    A subclass defines ``reduce``.

    Args:
        ignore_index: label of pixels without a loss.
    """

    def __init__(self, ignore_index: int = 255) -> None:
        super().__init__()
        self.ignore_index = ignore_index

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Scalar loss, at least float32: logits [B, C, H, W], labels [B, H, W]."""
        with torch.autocast(logits.device.type, enabled=False):
            logits = logits.to(compute_dtype(logits))
            num_classes = logits.shape[1]
            labels = labels.flatten().long()
            valid = (labels != self.ignore_index).unsqueeze(1)  # [pixels, 1]
            labels = labels.masked_fill(labels == self.ignore_index, 0)
            one_hot = F.one_hot(labels, num_classes).to(logits.dtype) * valid
            probabilities = logits.softmax(1).movedim(1, -1).flatten(0, 2) * valid
            return self.reduce(probabilities, one_hot)

    def reduce(self, probabilities: Tensor, one_hot: Tensor) -> Tensor:
        """Scalar from probabilities and labels, both [pixels, C] and zero where ignored."""
        raise NotImplementedError


@MODELS.register_module()
class Dice(RegionLoss):
    """Mean over the classes of the batch of ``1 - 2 sum p y / (sum p^2 + sum y)``.

    Milletari et al., 3DV 2016. Ignored pixels count nowhere, unlike in MMSegmentation's
    ``DiceLoss``.
    """

    def reduce(self, probabilities: Tensor, one_hot: Tensor) -> Tensor:
        pixels = one_hot.sum(0)
        present = pixels > 0
        intersection = (probabilities * one_hot).sum(0)
        total = probabilities.square().sum(0) + pixels
        losses = 1 - 2 * intersection / total.clamp(min=1e-12)
        return (losses * present).sum() / present.sum().clamp(min=1)


@MODELS.register_module()
class DiceCrossEntropy(nn.Module):
    """The sum of :class:`CrossEntropy` and :class:`Dice`, as medical benchmarks train U-Net.

    Args:
        ignore_index: label of pixels without a loss.
    """

    def __init__(self, ignore_index: int = 255) -> None:
        super().__init__()
        self.cross_entropy = CrossEntropy(ignore_index)
        self.dice = Dice(ignore_index)

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Scalar loss, at least float32: logits [B, C, H, W], labels [B, H, W]."""
        return self.cross_entropy(logits, labels) + self.dice(logits, labels)


@MODELS.register_module()
class LovaszSoftmax(RegionLoss):
    """Lovasz extension of 1 - IoU, the mean over the classes of the batch (Berman, CVPR 2018).

    Of each class the pixels are sorted by their errors; a pixel's error counts as much as the
    Jaccard loss grows when the pixel joins those that are wrong (their Algorithm 1).
    """

    def reduce(self, probabilities: Tensor, one_hot: Tensor) -> Tensor:
        pixels = one_hot.sum(0)
        present = pixels > 0
        errors, order = (one_hot - probabilities).abs().sort(dim=0, descending=True)  # ignored: 0
        truth = one_hot.gather(0, order)
        # of integers: a cumulative sum of floats has no deterministic kernel on CUDA
        missed = truth.cumsum(0, dtype=torch.int32)
        added = (1 - truth).cumsum(0, dtype=torch.int32)
        jaccard = 1 - (pixels - missed) / (pixels + added)
        growth = jaccard.diff(dim=0, prepend=jaccard.new_zeros(1, jaccard.shape[1]))
        losses = (errors * growth).sum(0)
        return (losses * present).sum() / present.sum().clamp(min=1)
