"""A network of MMSegmentation that is built and run in no time, for three classes."""

UNET = {
    "type": "UNet",
    "base_channels": 4,
    "num_stages": 2,
    "strides": (1, 1),
    "enc_num_convs": (1, 1),
    "dec_num_convs": (1,),
    "downsamples": (True,),
    "enc_dilations": (1, 1),
    "dec_dilations": (1,),
}
HEAD = {
    "type": "FCNHead",
    "in_channels": 4,
    "in_index": 1,
    "channels": 4,
    "num_convs": 1,
    "num_classes": 3,
}
ENCODER_DECODER = {
    "type": "EncoderDecoder",
    "backbone": UNET,
    "decode_head": HEAD,
    "test_cfg": {"mode": "whole"},
}
