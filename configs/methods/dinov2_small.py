"""DINOv2 ViT-S/14, frozen; a linear layer is trained on it.

Paper: Oquab et al., TMLR 2024.

DINOv2 ViT-S/14 (Oquab et al., TMLR 2024), frozen: a linear layer on its class token learns. Images
are padded to a multiple of 14. Weights: fedseg prepare weights vit_small_patch14_dinov2 FILE
(docs/encoders.md); with model.weights=None they are random.
"""

slot = "network"
task = "classification"
needs = "color_images"

model = dict(
    type="TimmClassifier",
    encoder="vit_small_patch14_dinov2",
    options=dict(dynamic_img_size=True),
    pretrained="DINOv2",
    freeze="backbone",
    weights=dict(path="data/weights/vit_small_patch14_dinov2.safetensors", module="backbone"),
    groups=None,  # of the network that it replaces
)
