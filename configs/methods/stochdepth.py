# FedAlign's: the last block is there with probability 0.9, those before it more often.
slot = "regularizer"
refuses = {
    "val_evaluator.type": {"only for classification": ["IoUMetric", "DiceMetric", "BoundaryIoU"]},
    "model.type": {
        "no residual blocks": [
            *("CNN", "MNISTCNN", "FEMNISTCNN", "CharLSTM", "MobileNetV2GN", "TimmClassifier")
        ],
    },
}

model = dict(stochastic_depth=0.9)
