"""Models: segmentors and classifiers, their preprocessing and losses."""

from typing import TYPE_CHECKING

from fedseg.sources import lazy_exports

if TYPE_CHECKING:
    from fedseg.models.bisenetv2 import BiSeNetV2Segmentor
    from fedseg.models.classifier import Classifier
    from fedseg.models.cnn import CNN, MNISTCNN
    from fedseg.models.feddrive_bisenetv2 import FedDriveBiSeNetV2Segmentor
    from fedseg.models.groupnorm import group_norm
    from fedseg.models.losses import CrossEntropy, OHEMCrossEntropy, PixelLoss
    from fedseg.models.mobilenet import MobileNetV2GN
    from fedseg.models.preprocessor import ImagePreprocessor
    from fedseg.models.recording import recorded
    from fedseg.models.resnet import ResNet, ResNet18GN, ResNet20GN, ResNet56
    from fedseg.models.segmentor import Segmentor, class_map
    from fedseg.models.slim import Slim
    from fedseg.models.torchvision_segmentation import TorchvisionSegmentation
    from fedseg.models.weights import WeightsFile

__getattr__ = lazy_exports(__name__, __file__)
