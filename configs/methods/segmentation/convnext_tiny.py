"""ConvNeXt-T, frozen; a linear layer is trained on it.

Paper: Liu et al., CVPR 2022.

ConvNeXt-T (Liu et al., CVPR 2022), frozen: a linear layer on its last feature map learns. Images
are padded to a multiple of 32, its stride. Weights: see ../convnext_tiny.py.
"""

slot = "network"
task = "segmentation"

model = dict(
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
)
