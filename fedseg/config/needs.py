"""What a method asks of a config: its ``task`` and its ``needs``.

A need is told by the type of one component, of which the names without it are listed. A component
of a user's own is in no list: whether it has what a method needs is checked when a run is built.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedseg.config.layers import get

PIXEL_METRICS = ("IoUMetric", "DiceMetric", "ForegroundDice", "BoundaryIoU")


@dataclass(frozen=True)
class Need:
    """A condition on the type of one component."""

    key: str  # of the type, such as model.type
    lack: str  # what a config that is refused has, for the message: "no BatchNorm"
    refused: tuple[str, ...] = ()  # types that do not meet the need
    accepted: tuple[str, ...] = ()  # if any are given, all other types are refused

    def refused_type(self, config: Any) -> str | None:
        """The type in a config that does not meet the need, or None."""
        for name in component_types(config, self.key):
            if name in self.refused:
                return name
            if self.accepted and name not in self.accepted:
                return name
        return None


TASKS: Mapping[str, Need] = {
    "segmentation": Need(
        key="val_evaluator.type",
        lack="only for segmentation",
        refused=("Accuracy",),
    ),
    "classification": Need(
        key="val_evaluator.type",
        lack="only for classification",
        refused=PIXEL_METRICS,
    ),
}

NEEDS: Mapping[str, Need] = {
    # networks
    "batchnorm": Need(
        key="model.type",
        lack="no BatchNorm",
        refused=(
            "CNN",
            "MNISTCNN",
            "FEMNISTCNN",
            "CharLSTM",
            "MobileNetV2GN",
            "ResNet18GN",
            "ResNet20GN",
        ),
    ),
    "resnet": Need(
        key="model.type",
        lack="no ResNet",
        refused=("CNN", "MNISTCNN", "FEMNISTCNN", "CharLSTM", "MobileNetV2GN", "TimmClassifier"),
    ),
    "bisenetv2": Need(
        key="model.network.type",
        lack="no BiSeNetV2",
        refused=("EncoderDecoder",),
    ),
    # local optimizers
    "sgd": Need(
        key="optim_wrapper.optimizer.type",
        lack="another local optimizer than SGD",
        accepted=("SGD",),
    ),
    # images
    "color_images": Need(
        key="train_dataloader.dataset.type",
        lack="gray, or text",
        refused=("MNISTDataset", "FEMNISTDataset", "ShakespeareDataset"),
    ),
    "object_images": Need(
        key="train_dataloader.dataset.type",
        lack="other images, or text",
        refused=("MNISTDataset", "FEMNISTDataset", "ShakespeareDataset", "LandmarksDataset"),
    ),
    # what clients send
    "bounded_updates": Need(
        key="algorithm.type",
        lack="no rule bounds what its clients send",
        refused=("FedCM", "FedDGGA", "FedExLoRA", "FlexLoRA"),
    ),
    "fedavg_updates": Need(
        key="algorithm.type",
        lack="epsilon is that of FedAvg and FedProx",
        accepted=("FedAvg", "FedProx"),
    ),
    "plain_loss": Need(
        key="local_loss.type",
        lack="sends more than the update",
        refused=("ClassWeights", "SelfTraining"),
    ),
    "mean_of_updates": Need(
        key="robust.type",
        lack="no mean of the updates",
        refused=("CoordinateMedian", "TrimmedMean", "Krum"),
    ),
}


def has_pixel_metric(config: Any) -> bool:
    """True if a config is evaluated by a metric of segmentation."""
    return any(name in PIXEL_METRICS for name in component_types(config, "val_evaluator.type"))


def component_types(config: Any, key: str) -> list[str]:
    """The type at a key such as ``model.type``; where a list of components is, that of each."""
    place, _, last = key.rpartition(".")
    component = get(config, place)
    components = component if isinstance(component, list | tuple) else [component]
    types = [get(component, last) for component in components]
    return [name for name in types if isinstance(name, str)]
