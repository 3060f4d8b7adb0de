"""ConvNeXt-T, frozen; a linear layer is trained on it.

Paper: Liu et al., CVPR 2022.

The linear layer is on the pooled activations. Images are padded to a multiple of 32. Weights:
fedseg prepare weights convnext_tiny FILE (docs/encoders.md); with model.weights=None they are
random.
"""

slot = "network"
needs = "color_images"

values = {
    "classification": dict(
        model=dict(
            type="TimmClassifier",
            encoder="convnext_tiny",
            pretrained="ImageNet",
            freeze="backbone",
            weights=dict(path="data/weights/convnext_tiny.safetensors", module="backbone"),
            groups=None,  # of the network that it replaces
        ),
    ),
    "feddrive": dict(
        model=dict(
            type="Segmentor",
            weights=dict(
                _delete_=True,  # those of a setting are for its own network
                path="data/weights/convnext_tiny.safetensors",
                module="backbone",
                ignore="head.",
            ),
            network=dict(
                _delete_=True,
                type="TimmSegmentation",
                encoder="convnext_tiny",
                pretrained="ImageNet",
            ),
            freeze="network.backbone",
            loss=dict(_delete_=True, type="CrossEntropy"),
            data_preprocessor=dict(
                type="ImagePreprocessor", mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]
            ),
        ),
    ),
}
