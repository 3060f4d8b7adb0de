"""DINOv2 ViT-S/14, frozen; a linear layer is trained on it.

Paper: Oquab et al., TMLR 2024.

DINOv2 ViT-S/14 (Oquab et al., TMLR 2024), frozen: a linear layer on its class token learns. Images
are padded to a multiple of 14. Weights: fedseg prepare weights vit_small_patch14_dinov2 FILE
(docs/encoders.md); with model.weights=None they are random.
"""

slot = "network"
needs = "color_images"

values = {
    "classification": dict(
        model=dict(
            type="TimmClassifier",
            encoder="vit_small_patch14_dinov2",
            options=dict(dynamic_img_size=True),
            pretrained="DINOv2",
            freeze="backbone",
            weights=dict(
                path="data/weights/vit_small_patch14_dinov2.safetensors", module="backbone"
            ),
            groups=None,  # of the network that it replaces
        ),
    ),
    "feddrive": dict(
        model=dict(
            type="Segmentor",
            weights=dict(
                _delete_=True,  # those of a setting are for its own network
                path="data/weights/vit_small_patch14_dinov2.safetensors",
                module="backbone",
            ),
            network=dict(
                _delete_=True,
                type="TimmSegmentation",
                encoder="vit_small_patch14_dinov2",
                options=dict(dynamic_img_size=True),
                pretrained="DINOv2",
            ),
            freeze="network.backbone",
            loss=dict(_delete_=True, type="CrossEntropy"),
            data_preprocessor=dict(
                type="ImagePreprocessor", mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]
            ),
        ),
    ),
}
