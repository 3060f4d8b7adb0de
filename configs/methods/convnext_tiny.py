"""ConvNeXt-T, frozen; a linear layer is trained on it.

Paper: Liu et al., CVPR 2022.

The linear layer is on the pooled activations. Images are padded to a multiple of 32. Weights:
fedseg prepare weights convnext_tiny FILE (docs/encoders.md); with model.weights=None they are
random.
"""

slot = "network"
task = "classification"
needs = "color_images"

model = dict(
    type="TimmClassifier",
    encoder="convnext_tiny",
    pretrained="ImageNet",
    freeze="backbone",
    weights=dict(path="data/weights/convnext_tiny.safetensors", module="backbone"),
    groups=None,  # of the network that it replaces
)
