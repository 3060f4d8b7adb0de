# Prototypes of FedProto (Tan et al., AAAI 2022) in FedSeg's contrast: temperature and head are
# FedSeg's, the weight is ours, untuned.
slot = "regularizer"
refuses = {"val_evaluator.type": {"only for segmentation": "Accuracy"}}

local_loss = dict(_delete_=True, type="FedProtoPixels", weight=0.1)
model = dict(projection=(128, 256))
