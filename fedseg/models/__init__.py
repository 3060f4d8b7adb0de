"""Models: segmentors and classifiers, their preprocessing and losses."""

from typing import Any

from fedseg.registry import MODELS, load_class

_MODULES = {
    **MODELS.modules,
    "Classifier": "fedseg.models.classifier",
    "group_norm": "fedseg.models.classifier",
    "PixelLoss": "fedseg.models.losses",
    "ResNet": "fedseg.models.resnet",
    "class_map": "fedseg.models.segmentor",
    "Slim": "fedseg.models.slim",
    "WeightsFile": "fedseg.models.weights",
}


def __getattr__(name: str) -> Any:
    return load_class(__name__, name, _MODULES)
