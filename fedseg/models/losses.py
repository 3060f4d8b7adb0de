"""Pixel losses: cross-entropy and its hard-example form, computed from logits of any resolution.

A loss is called as ``loss(logits, labels)`` with float logits [B, C, h, w] and labels [B, H, W];
it resizes the logits bilinearly to H x W itself (which ``resizes = True`` says to the segmentor).
Every loss exists twice: ``differentiable`` is the definition in plain tensor operations, used on
accelerators and for second derivatives; ``_FusedPixelLoss`` is the same function for the CPU, about
three times as fast.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from fedseg.config.schema import NonNegative, PositiveShare, Share
from fedseg.errors import DataError
from fedseg.names import ERASED
from fedseg.registry import MODELS
from fedseg.units import floor_share

# Base-2 logits below this would make a sum of exp2 lose precision (float32 ends at 2^-126).
LOWEST_EXPONENT = -100.0


def compute_dtype(tensor: Tensor) -> torch.dtype:
    """float64 stays float64; every other float type is computed in float32."""
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def low(dtype: torch.dtype) -> float:
    """A number whose exponential is 0, and that stays finite in sums of a few."""
    return torch.finfo(dtype).min / 4


class PixelLoss(nn.Module):
    """Base of losses that are a weighted sum of the pixels' cross-entropies.

    A subclass defines ``reduce`` and, with its derivative, ``value_and_weights``.

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
            labels: integer [B, H, W], class ids or ``ignore_index``; others are a DataError on the
                CPU, elsewhere the check would stall the device.
            unknown: bool [C], which classes a pixel may have whose label is erased
                (:data:`fedseg.names.ERASED`): it costs the negative logarithm of their probability.
        """
        if labels.is_floating_point():
            raise DataError(f"data_samples: must be class ids, integers, not {labels.dtype}")
        if logits.device.type == "cpu" and unknown is None and not torch.compiler.is_compiling():
            return _FusedPixelLoss.apply(logits, labels, self)
        return self.differentiable(logits, labels, unknown)

    def differentiable(
        self, logits: Tensor, labels: Tensor, unknown: Tensor | None = None
    ) -> Tensor:
        """The definition of this loss, differentiable any number of times."""
        with torch.autocast(logits.device.type, enabled=False):
            logits = logits.to(compute_dtype(logits))
            if logits.shape[-2:] != labels.shape[-2:]:
                logits = F.interpolate(logits, labels.shape[-2:], mode="bilinear")
            labels = labels.long()
            valid = labels != self.ignore_index
            if unknown is not None:
                erased = labels == ERASED
                labels = labels.masked_fill(erased, self.ignore_index)
            losses = F.cross_entropy(
                logits, labels, ignore_index=self.ignore_index, reduction="none"
            )
            if unknown is not None:  # log(sum_c e^z / sum_unknown e^z) = log(1 + e^(known - other))
                mask, least = unknown.view(-1, 1, 1), low(logits.dtype)
                known = logits.masked_fill(mask, least).logsumexp(1)
                other = logits.masked_fill(~mask, least).logsumexp(1)
                cost = torch.logaddexp(known - other, torch.zeros_like(other))
                losses = torch.where(erased, cost, losses)
            return self.reduce(losses.flatten(1), valid)

    def reduce(self, losses: Tensor, valid: Tensor) -> Tensor:
        """Scalar from losses [B, H W], zero where ignored, and ``valid``, bool [B, H, W]."""
        raise NotImplementedError

    def weight(self, labels: Tensor) -> int:
        """The weight of a batch in the mean over a data set: its labeled pixels."""
        return int(((labels != self.ignore_index) & (labels != ERASED)).sum())

    def value_and_weights(
        self, losses: Tensor, num_images: int, num_valid: int
    ) -> tuple[Tensor, Tensor | float]:
        """Share of the loss of some images of a batch, and its derivative by each pixel loss.

        Args:
            losses: [images of this part, H W], zero where ignored.
            num_images: images in the whole batch.
            num_valid: pixels with a label in the whole batch.

        Returns:
            ``reduce``'s share of each image [images], and weights that broadcast with ``losses``.
        """
        raise NotImplementedError


@MODELS.register_module()
class CrossEntropy(PixelLoss):
    """Mean cross-entropy over the labeled pixels of the batch; 0 if no pixel has a label."""

    def reduce(self, losses: Tensor, valid: Tensor) -> Tensor:
        return losses.sum() / valid.sum().clamp(min=1)

    def value_and_weights(
        self, losses: Tensor, num_images: int, num_valid: int
    ) -> tuple[Tensor, float]:
        weight = 1 / max(1, num_valid)
        return losses.sum(1) * weight, weight


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

    def value_and_weights(
        self, losses: Tensor, num_images: int, num_valid: int
    ) -> tuple[Tensor, Tensor]:
        num_pixels = losses.shape[1]
        k = self.num_hard(num_pixels)
        values = losses.numpy()
        # Everything from position P - k on is among the k highest; the element there is the lowest
        # of them. numpy's partition is vectorized, some ten times as fast as torch.topk.
        hard = np.partition(values, num_pixels - k, axis=1)[:, num_pixels - k :]
        weights = torch.empty_like(losses)
        for image, threshold in enumerate(hard[:, 0]):
            row = weights[image]
            torch.ge(losses[image], float(threshold), out=row)
            if (at_least := np.count_nonzero(row.numpy())) > k:
                ties = losses[image] == float(threshold)
                num_ties = int(ties.sum())
                row[ties] = (k - (at_least - num_ties)) / num_ties
        weights.mul_(1 / (k * num_images))
        return torch.from_numpy(hard.mean(axis=1)) / num_images, weights


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

    def value_and_weights(
        self, losses: Tensor, num_images: int, num_valid: int
    ) -> tuple[Tensor, Tensor]:
        wrong, count = -torch.expm1(-losses), max(1, num_valid)
        # at p = 1 the power of 0 would be infinite for a gamma below 1, times a loss of 0
        inner = self.gamma * wrong.clamp(min=1e-30) ** (self.gamma - 1) * torch.exp(-losses)
        weights = (inner * losses + wrong**self.gamma) / count
        return (wrong**self.gamma * losses).sum(1) / count, weights


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
            losses = F.cross_entropy(
                logits, labels, ignore_index=self.ignore_index, reduction="none"
            ).flatten()
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
    """Base of losses by the labeled pixels of the whole batch and their probabilities.

    Args:
        ignore_index: label of pixels without a loss.
    """

    def __init__(self, ignore_index: int = 255) -> None:
        super().__init__()
        self.ignore_index = ignore_index

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Scalar loss, at least float32: logits [B, C, H, W], labels [B, H, W]."""
        with torch.autocast(logits.device.type, enabled=False):
            shares = logits.to(compute_dtype(logits)).softmax(1).movedim(1, -1).flatten(0, 2)
            valid = (labels != self.ignore_index).flatten()
            labels = labels.flatten().long().masked_fill(~valid, 0)
            one_hot = F.one_hot(labels, shares.shape[1]).to(shares.dtype) * valid[:, None]
            return self.of_regions(shares * valid[:, None], one_hot)

    def of_regions(self, shares: Tensor, one_hot: Tensor) -> Tensor:
        """Scalar from probabilities and labels, both [pixels, C] and zero where ignored."""
        raise NotImplementedError


@MODELS.register_module()
class Dice(RegionLoss):
    """Mean over the classes of the batch of ``1 - 2 sum p y / (sum p^2 + sum y)``.

    Milletari et al., 3DV 2016. Ignored pixels count nowhere, unlike in MMSegmentation's
    ``DiceLoss``.
    """

    def of_regions(self, shares: Tensor, one_hot: Tensor) -> Tensor:
        pixels = one_hot.sum(0)
        both, sums = (shares * one_hot).sum(0), shares.square().sum(0) + pixels
        losses = (1 - 2 * both / sums.clamp(min=1e-12)) * (pixels > 0)
        return losses.sum() / (pixels > 0).sum().clamp(min=1)


@MODELS.register_module()
class LovaszSoftmax(RegionLoss):
    """Lovasz extension of 1 - IoU, the mean over the classes of the batch (Berman, CVPR 2018)."""

    def of_regions(self, shares: Tensor, one_hot: Tensor) -> Tensor:
        errors, order = (one_hot - shares).abs().sort(dim=0, descending=True)  # ignored: 0
        truth, pixels = one_hot.gather(0, order), one_hot.sum(0)
        union = pixels + (1 - truth).cumsum(0)
        jaccard = 1 - (pixels - truth.cumsum(0)) / union
        steps = jaccard.diff(dim=0, prepend=jaccard.new_zeros(1, jaccard.shape[1]))
        return (errors * steps).sum(0)[pixels > 0].sum() / (pixels > 0).sum().clamp(min=1)


class _FusedPixelLoss(torch.autograd.Function):
    """A ``PixelLoss`` on the CPU: value and gradient in one pass over a few images at a time.

    Autograd through resize, log-softmax, gather and top-k keeps several full-size copies of the
    logits. Here the gradient by the pixel's logits, weight * (softmax - onehot), is written over
    the resized logits and folded back at once, so only the small gradient of the input outlives the
    call. Resizing is fastest in channels_last; exp2 is faster than exp.
    """

    @staticmethod
    def forward(ctx, logits: Tensor, labels: Tensor, module: PixelLoss) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            loss, gradient = _value_and_gradient(logits, labels, module, ctx.needs_input_grad[0])
        ctx.module = module
        ctx.save_for_backward(logits, labels, gradient)
        return loss

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        logits, labels, gradient = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph: a second derivative is wanted
            loss = ctx.module.differentiable(logits, labels)
            (gradient,) = torch.autograd.grad(loss, logits, grad_output, create_graph=True)
            return gradient, None, None
        return (gradient * grad_output).to(logits.dtype), None, None


def _value_and_gradient(
    logits: Tensor, labels: Tensor, module: PixelLoss, need_gradient: bool
) -> tuple[Tensor, Tensor | None]:
    """Loss, and its gradient by ``logits`` in the dtype of the computation."""
    num_images, num_classes = logits.shape[:2]
    size = labels.shape[-2:]
    num_pixels = size.numel()

    valid = labels != module.ignore_index
    targets = labels.masked_fill(~valid, 0).long().flatten(1)
    lowest, highest = map(int, targets.aminmax()) if targets.numel() else (0, 0)
    if highest >= num_classes:
        raise DataError(
            f"data_samples: class id {highest}, but the model has {num_classes} classes: set "
            "model.num_classes to the data set's number of classes"
        )
    if lowest < 0:
        raise DataError(
            f"data_samples: label {lowest} is neither a class nor the loss's ignore_index "
            f"{module.ignore_index}: correct the data set's labels, or model.loss.ignore_index"
        )
    num_valid = int(np.count_nonzero(valid.numpy()))
    valid = valid.flatten(1)

    # In base 2, and shifted so that each position's highest logit is 0: resizing is a convex
    # combination, so no resized logit exceeds 0 and exp2 cannot overflow.
    scaled = logits.detach().to(compute_dtype(logits)) * math.log2(math.e)
    scaled = scaled.contiguous(memory_format=torch.channels_last)
    scaled = scaled - scaled.amax(1, keepdim=True)
    shift_again = not bool(scaled.amin() > LOWEST_EXPONENT)

    resizes = scaled.shape[-2:] != size
    # Full-size logits are overwritten by the gradient.
    gradient = torch.empty_like(scaled) if need_gradient and resizes else scaled
    ones = scaled.new_ones(num_classes)
    shares = []
    part = max(1, torch.get_num_threads())  # resizing runs in parallel over images
    for start in range(0, num_images, part):
        images = slice(start, min(start + part, num_images))
        count = images.stop - images.start
        resized = scaled[images]
        if resizes:
            resized = F.interpolate(resized, size, mode="bilinear")
        pixels = resized.permute(0, 2, 3, 1).contiguous().view(-1, num_classes)
        if shift_again:
            pixels -= pixels.amax(1, keepdim=True)
        flat = pixels.view(-1)
        position = targets[images].flatten() + torch.arange(0, flat.numel(), num_classes)

        target_logits = flat.index_select(0, position)
        pixels.exp2_()
        sums = torch.mv(pixels, ones)
        losses = sums.log2().sub_(target_logits).mul_(math.log(2)).view(count, num_pixels)
        losses.masked_fill_(~valid[images], 0)
        share, weights = module.value_and_weights(losses, num_images, num_valid)
        shares.append(share)

        if need_gradient:
            weights = (valid[images].to(losses.dtype) * weights).view(-1)
            pixels.mul_((weights / sums).unsqueeze(1))
            flat.scatter_add_(0, position, weights.neg_())
            if resizes:
                by_resized = pixels.view(count, *size, num_classes).permute(0, 3, 1, 2)
                gradient[images] = torch.ops.aten.upsample_bilinear2d_backward(
                    by_resized, size, scaled[images].shape, False
                )
    return torch.cat(shares).sum(), gradient if need_gradient else None
