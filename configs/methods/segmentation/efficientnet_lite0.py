"""EfficientNet-Lite0 with ImageNet weights, frozen; a linear layer is trained on it.

Paper: Tan and Le, ICML 2019.

EfficientNet-Lite0 (Google, 2020), frozen: a linear layer on its last feature map (stride 32)
learns. Weights: see ../efficientnet_lite0.py. Images are padded to a multiple of 32.
"""

slot = "network"
task = "segmentation"

model = dict(
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
    data_preprocessor=dict(type="ImagePreprocessor", mean=[0.5, 0.5, 0.5], std=[0.5, 0.5, 0.5]),
)
