"""A small vision transformer for tests and demos.

Paper: Dosovitskiy et al., ICLR 2021.

A ViT of three layers for tests and demos, trained from scratch: patches of 8x8 pixels, 64 channels.
With model.freeze=backbone only its linear head learns.
"""

slot = "network"
task = "classification"
needs = "color_images"

model = dict(
    type="TimmClassifier",
    encoder="vit_tiny_patch16_224",
    options=dict(
        img_size=32, patch_size=8, embed_dim=64, depth=3, num_heads=2, dynamic_img_size=True
    ),
    groups=None,  # of the network that it replaces
)
