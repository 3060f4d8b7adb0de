"""Small convolutional networks: of the flat-minima papers for CIFAR, for MNIST and for FEMNIST."""

import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from fedseg.models.classifier import Classifier
from fedseg.registry import MODELS


@MODELS.register_module()
class CNN(Classifier):
    """The CNN of the flat-minima papers for CIFAR-10 and CIFAR-100 (LeNet-5 like).

    Two 5x5 convolutions of 64 channels without padding, each with 2x2 max-pooling, then linear
    layers 1600-384-192-classes, ReLU in between (Caldarola et al., ECCV 2022, Appendix C): 797,962
    parameters for 10 classes.

    Args:
        num_classes: C of the logits.
        kwargs: data_preprocessor, weights, projection: see ``Classifier``.
    """

    def __init__(self, num_classes: PositiveInt, **kwargs) -> None:
        super().__init__(num_classes, in_channels=3, image_size=(32, 32), **kwargs)
        self.conv1 = nn.Conv2d(3, 64, 5)
        self.conv2 = nn.Conv2d(64, 64, 5)
        self.fc1 = nn.Linear(64 * 5 * 5, 384)
        self.fc2 = nn.Linear(384, 192)
        self.add_head(192)

    def features(self, inputs: Tensor) -> Tensor:
        """Activations after the second linear layer, float [B, 192], or their projection."""
        x = _pooled(self.conv1(inputs))  # [B, 64, 14, 14]
        x = _pooled(self.conv2(x))  # [B, 64, 5, 5]
        x = x.flatten(1)  # in the order channel, row, column, whatever the strides are
        x = F.relu(self.fc1(x), inplace=True)
        return self.projection(F.relu(self.fc2(x), inplace=True))


@MODELS.register_module()
class MNISTCNN(Classifier):
    """Two convolutions and a linear layer of 500 for 28x28 gray images: Caffe's LeNet with ReLU.

    5x5 convolutions of 20 and 50 channels without padding, each with 2x2 max-pooling, linear layers
    800-500-classes: 431,080 parameters for 10 classes. The course report says "two convolutions, FC
    500" without channels and kernels; these are those of the network that it describes.

    Args:
        num_classes: C of the logits.
        kwargs: data_preprocessor, weights, projection: see ``Classifier``.
    """

    def __init__(self, num_classes: PositiveInt = 10, **kwargs) -> None:
        super().__init__(num_classes, in_channels=1, image_size=(28, 28), **kwargs)
        self.conv1 = nn.Conv2d(1, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.fc1 = nn.Linear(50 * 4 * 4, 500)
        self.add_head(500)

    def features(self, inputs: Tensor) -> Tensor:
        """Activations after the first linear layer, float [B, 500], or their projection."""
        x = _pooled(self.conv1(inputs))  # [B, 20, 12, 12]
        x = _pooled(self.conv2(x))  # [B, 50, 4, 4]
        return self.projection(F.relu(self.fc1(x.flatten(1)), inplace=True))


@MODELS.register_module()
class FEMNISTCNN(Classifier):
    """Two convolutions with dropout for 28x28 gray images: FedJAX's and TFF's network for EMNIST.

    3x3 convolutions of 32 and 64 channels without padding, 2x2 max-pooling, a linear layer of 128;
    a quarter of the activations before it and half of those after it are dropped in training:
    1,206,590 parameters for 62 classes.

    Args:
        num_classes: C of the logits.
        kwargs: data_preprocessor, weights, projection: see ``Classifier``.
    """

    def __init__(self, num_classes: PositiveInt = 62, **kwargs) -> None:
        super().__init__(num_classes, in_channels=1, image_size=(28, 28), **kwargs)
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.fc1 = nn.Linear(64 * 12 * 12, 128)
        self.add_head(128)

    def features(self, inputs: Tensor) -> Tensor:
        """Activations after the first linear layer, float [B, 128], or their projection."""
        x = _pooled(self.conv2(F.relu(self.conv1(inputs), inplace=True)))  # [B, 64, 12, 12]
        x = F.relu(self.fc1(F.dropout(x.flatten(1), 0.25, self.training)), inplace=True)
        return self.projection(F.dropout(x, 0.5, self.training))


def _pooled(x: Tensor) -> Tensor:
    """ReLU and 2x2 max-pooling. They commute, and pooling first leaves ReLU a quarter to do."""
    return F.relu(F.max_pool2d(x, 2), inplace=True)
