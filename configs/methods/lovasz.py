# Berman et al., CVPR 2018, by the batch's labeled pixels and classes.
slot = "loss"
refuses = {"val_evaluator.type": {"only for segmentation": "Accuracy"}}

model = dict(loss=dict(_delete_=True, type="LovaszSoftmax"))
