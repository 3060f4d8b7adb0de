"""Clients in the evaluation: their test images, mixes of classes, and fine-tuned models."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from fedseg.core.client import Client
from fedseg.core.client_data import Job
from fedseg.core.forward import prepare_batch
from fedseg.core.local_loss import LocalLoss
from fedseg.core.messages import Message, Task
from fedseg.core.seeds import generator_for, seed_for, seed_model


def class_counts(data: Any) -> np.ndarray | None:
    """int64 [clients, classes] of training images; None for images without a class each."""
    labels = class_labels(getattr(data, "dataset", None))
    if labels is None:
        return None
    size = len(data.dataset.metainfo["classes"])
    return np.stack([np.bincount(labels[held], minlength=size) for held in data.indices.values()])


def class_labels(dataset: Any) -> np.ndarray | None:
    """The class of every image, of data sets that name their classes; else None."""
    classes = (getattr(dataset, "metainfo", None) or {}).get("classes")
    labels = getattr(dataset, "labels", None)
    if labels is None or classes is None or not len(classes) or np.ndim(labels[0]):
        return None
    labels = np.asarray(labels)
    return labels if np.issubdtype(labels.dtype, np.integer) else None


def deal_by_class(data: Any, dataset: Any) -> dict[str, np.ndarray]:
    """Client -> test images: one of a class goes to a client with its share of that class."""
    counts, labels = class_counts(data), class_labels(dataset)
    if counts is None or labels is None or labels.max() >= counts.shape[1]:
        return {}
    owners, rng = np.full(len(labels), -1), generator_for(0, "test images of clients")
    for number, of_class in enumerate(counts.T):
        images = np.flatnonzero(labels == number)
        if of_class.any():
            owners[images] = rng.choice(len(of_class), len(images), p=of_class / of_class.sum())
    images_of = {client: np.flatnonzero(owners == n) for n, client in enumerate(data.clients)}
    return {client: images for client, images in images_of.items() if len(images)}


def accuracy_in_mix(data: Any, by_class: dict[str, float | None]) -> list[float | None] | None:
    """Accuracy in PERCENT for each client: that of the classes, weighted by its training images.

    With one class for each client it shows which classes the last rounds' participants have made
    the model forget (Caldarola et al., ECCV 2022, section 3).
    """
    counts = class_counts(data)
    if counts is None or counts.shape[1] != len(by_class):
        return None
    mix = counts / np.asarray(data.sizes)[:, None]
    accuracy = np.array([np.nan if v is None else v for v in by_class.values()], dtype=float)
    tested = np.isfinite(accuracy)  # a class without a test image says nothing
    weight = mix[:, tested].sum(axis=1)
    values = mix[:, tested] @ accuracy[tested] / np.where(weight > 0, weight, np.nan)
    return [float(v) if np.isfinite(v) else None for v in values]


def fine_tune(run: Any, client: str, steps: int, lr: float | None) -> None:
    """Take plain local steps from the model that ``run.flat`` holds; no state is kept.

    Without the algorithm's and the local loss's terms: a function of model, seed and client.
    """
    trainer = run.trainer
    data = run.data
    flat = run.flat
    local = trainer.local
    index = data.clients.index(client)
    flat.counters.zero_()
    run.model.train()
    seed_model(seed_for(trainer.seed, "fine tune", index), flat.w.device)
    local.reset_state()
    task = Task(run.max_rounds, 0, index, client, data.sizes[index], steps, {})
    with _plain_training(run, lr):
        tuned = Client(trainer, task, Message(flat.w.clone(), flat.buffers, flat.counters))
        for batch in data.batches_alone(Job(0, 0, index, steps=steps)):  # no round is 0
            run.interrupt.check()
            tuned.batch = prepare_batch(run.model, batch, flat.w.dtype, training=True)
            with torch.enable_grad():
                local.gradient(tuned)
            local.step()
            tuned.step += 1


@contextmanager
def _plain_training(run: Any, lr: float | None) -> Iterator[None]:
    """Within it, local steps are those of the last round, at a rate, without a local loss.

    Afterwards, also after an error, trainer and optimizer are as before, the model in eval mode.
    """
    trainer, local = run.trainer, run.trainer.local
    local_loss = trainer.local_loss
    try:
        local.start_round(run.max_rounds)
        local.change_rates(local.rates if lr is None else [lr] * len(local.rates))
        trainer.local_loss = LocalLoss()
        yield
    finally:
        trainer.local_loss = local_loss
        local.restore_rates()
        local.start_round(max(run.round, 1))
        run.model.eval()
