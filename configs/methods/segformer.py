"""SegFormer-B0.

Paper: Xie et al., NeurIPS 2021.

A transformer; BatchNorm only in the head's fusion.
"""

slot = "network"
task = "segmentation"

model = dict(
    type="Segmentor",
    weights=None,  # those of a setting are for its own network
    network=dict(
        _delete_=True,
        type="EncoderDecoder",
        backbone=dict(
            type="MixVisionTransformer",
            embed_dims=32,
            num_layers=[2, 2, 2, 2],
            num_heads=[1, 2, 5, 8],
            patch_sizes=[7, 3, 3, 3],
            sr_ratios=[8, 4, 2, 1],
            drop_path_rate=0.1,
        ),
        decode_head=dict(
            type="SegformerHead",
            in_channels=[32, 64, 160, 256],
            in_index=[0, 1, 2, 3],
            channels=256,
            dropout_ratio=0.1,
            norm_cfg=dict(type="BN"),
            align_corners=False,
        ),
    ),
    loss=dict(_delete_=True, type="CrossEntropy"),
)
