"""A small vision transformer for tests and demos.

Paper: Dosovitskiy et al., ICLR 2021.

A ViT of three layers for tests and demos, trained from scratch: patches of 8x8 pixels, 64 channels.
With model.freeze=backbone only its linear head learns.
"""

slot = "network"
needs = "color_images"

values = {
    "classification": dict(
        model=dict(
            type="TimmClassifier",
            encoder="vit_tiny_patch16_224",
            options=dict(
                img_size=32, patch_size=8, embed_dim=64, depth=3, num_heads=2, dynamic_img_size=True
            ),
            groups=None,  # of the network that it replaces
        ),
    ),
    "feddrive": dict(
        model=dict(
            type="Segmentor",
            weights=None,  # those of a setting are for its own network
            network=dict(
                _delete_=True,
                type="TimmSegmentation",
                encoder="vit_tiny_patch16_224",
                options=dict(
                    img_size=32,
                    patch_size=8,
                    embed_dim=64,
                    depth=3,
                    num_heads=2,
                    dynamic_img_size=True,
                ),
            ),
            loss=dict(_delete_=True, type="CrossEntropy"),
            data_preprocessor=dict(
                type="ImagePreprocessor", mean=[0.5, 0.5, 0.5], std=[0.5, 0.5, 0.5]
            ),
        ),
    ),
}
