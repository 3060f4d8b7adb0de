"""Readable twins of the batched transforms: every image by itself, in NumPy."""

import numpy as np

from fedseg.datasets.batch_transforms import Cutout, Mixup, Normalize, RandomCrop, RandomFlip


def crop(step, images, labels, i, draws):
    pad, (height, width) = step.padding, step._target
    padded = np.pad(images[i], ((pad, pad), (pad, pad), (0, 0)))
    top, left = draws["top"][i], draws["left"][i]
    return padded[top : top + height, left : left + width], labels[i]


def flip(step, images, labels, i, draws):
    return images[i][:, ::-1] if draws["flip"][i] else images[i], labels[i]


def normalize(step, images, labels, i, draws):
    return (images[i] / 255 - np.asarray(step.mean)) / np.asarray(step.std), labels[i]


def cutout(step, images, labels, i, draws):
    image = np.array(images[i])
    top, left = draws["y"][i] - step.size // 2, draws["x"][i] - step.size // 2
    image[max(top, 0) : top + step.size, max(left, 0) : left + step.size] = 0
    return image, labels[i]


def mixup(step, images, labels, i, draws):
    weight, other = draws["weight"][i], draws["other"][i]
    image = weight * images[i] + (1 - weight) * images[other]
    own, second = (
        np.eye(step._classes)[label] if np.ndim(label) == 0 else label
        for label in (labels[i], labels[other])
    )
    return image, weight * own + (1 - weight) * second


TWINS = {RandomCrop: crop, RandomFlip: flip, Normalize: normalize, Cutout: cutout, Mixup: mixup}


def one_by_one(pipeline, images, labels, draws):
    """What ``pipeline.apply`` returns, as arrays."""
    images, labels = list(images), list(labels)
    for step, own in zip(pipeline.steps, draws, strict=True):
        twin = TWINS[type(step)]
        made = [twin(step, images, labels, i, own) for i in range(len(images))]
        images, labels = (list(part) for part in zip(*made, strict=True))
    return {"inputs": np.stack(images).transpose(0, 3, 1, 2), "data_samples": np.stack(labels)}


def batches_one_by_one(data, job):
    """What ``data.batches`` yields for ResidentData, as arrays."""
    for epoch, order, sizes in data.epochs(job):
        draws = data.draws(job, epoch, sizes)
        start = 0
        for size in sizes:
            rows = slice(start, start + size)
            own = [{name: values[rows] for name, values in step.items()} for step in draws]
            yield one_by_one(data.pipeline, *data.dataset.gather(order[rows]), own)
            start += size
