# The mean over labeled pixels.
slot = "loss"
refuses = {"val_evaluator.type": {"only for segmentation": "Accuracy"}}

model = dict(loss=dict(_delete_=True, type="CrossEntropy"))
