# The term is scaled to the cross-entropy, as in the released code, to which the published mu
# belongs: as the paper writes it, it would be about 1e5 in an untrained ResNet56. That code also
# clips the norm of the gradient at 10.
slot = "regularizer"
refuses = {
    "val_evaluator.type": {"only for classification": ["IoUMetric", "DiceMetric", "BoundaryIoU"]},
    "model.type": {
        "no stages of residual blocks": [
            *("CNN", "MNISTCNN", "FEMNISTCNN", "CharLSTM", "MobileNetV2GN", "TimmClassifier")
        ],
    },
}

local_loss = dict(type="FedAlign", mu=0.45, width=0.25, relative=True)
optim_wrapper = dict(clip_grad=dict(max_norm=10))
