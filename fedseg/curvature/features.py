"""Norms of a classifier's last features and of its outputs (Caldarola et al., ECCV 2022)."""

from collections import defaultdict
from dataclasses import dataclass

import torch
from torch import Tensor

from fedseg.curvature.surface import LossSurface
from fedseg.errors import ConfigError


@dataclass(frozen=True)
class FeatureNorms:
    """Mean norms by class, of figure 7.

    Attributes:
        features: class -> of the activations before the last layer.
        outputs: class -> of the logits.
    """

    features: dict[int, float]
    outputs: dict[int, float]


def feature_norms(surface: LossSurface) -> FeatureNorms:
    """Mean norms over the samples of each class; ConfigError if the model is no classifier."""
    model = surface.flat.model
    if not hasattr(model, "features"):
        raise ConfigError(
            f"features: {type(model).__name__} is not an image classifier: it has no features "
            "with a norm"
        )
    of_features: defaultdict[int, list[float]] = defaultdict(list)
    of_outputs: defaultdict[int, list[float]] = defaultdict(list)
    with torch.no_grad(), surface.evaluating():
        for batch in surface:
            features = model.features(batch.data["inputs"])
            classes = _classes(batch.labels)
            _add_norms(of_features, classes, features)
            _add_norms(of_outputs, classes, model.classifier(features))
    return FeatureNorms(features=_means(of_features), outputs=_means(of_outputs))


def _classes(labels: Tensor) -> list[int]:
    """Class ids, from ids [B] or probabilities [B, C] (mixup)."""
    ids = labels.argmax(1) if labels.dim() > 1 else labels
    return ids.tolist()


def _add_norms(norms: dict[int, list[float]], classes: list[int], vectors: Tensor) -> None:
    """Add the norms of vectors [B, D] to those of their classes."""
    for number, norm in zip(classes, vectors.norm(dim=1).tolist(), strict=True):
        norms[number].append(norm)


def _means(norms: dict[int, list[float]]) -> dict[int, float]:
    return {number: sum(values) / len(values) for number, values in sorted(norms.items())}
