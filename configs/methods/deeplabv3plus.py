"""DeepLabV3+ on a ResNet-18.

Paper: Chen et al., ECCV 2018.

timm's ResNet-18, output stride 16, one auxiliary head.

Any encoder of timm that gives feature maps fits: change ``model_name`` and the channels. To start
from weights on disk: ``model.weights=dict(path='resnet18.pth', module='backbone.timm_model',
ignore=('fc.',))``.
"""

slot = "network"
task = "segmentation"

__norm = dict(type="BN")  # two underscores: stays in this file

model = dict(
    type="Segmentor",
    weights=None,  # those of a setting are for its own network
    network=dict(
        _delete_=True,
        type="EncoderDecoder",
        backbone=dict(
            type="TIMMBackbone",
            model_name="resnet18",
            pretrained=False,
            out_indices=(1, 2, 3, 4),
            output_stride=16,
        ),
        decode_head=dict(
            type="DepthwiseSeparableASPPHead",
            in_channels=512,
            in_index=3,
            channels=128,
            dilations=(1, 6, 12, 18),
            c1_in_channels=64,
            c1_channels=12,
            dropout_ratio=0.1,
            norm_cfg=__norm,
            align_corners=False,
        ),
        auxiliary_head=dict(
            type="FCNHead",
            in_channels=256,
            in_index=2,
            channels=64,
            num_convs=1,
            concat_input=False,
            dropout_ratio=0.1,
            norm_cfg=__norm,
            align_corners=False,
        ),
    ),
    loss=dict(_delete_=True, type="CrossEntropy"),
    aux_weight=0.4,
)
