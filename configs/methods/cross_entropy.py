# The mean over labeled pixels.
slot = "loss"
refuses = {"val_evaluator.type": "Accuracy"}  # for segmentation

model = dict(loss=dict(_delete_=True, type="CrossEntropy"))
