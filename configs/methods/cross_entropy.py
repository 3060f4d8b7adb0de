"""Mean cross-entropy over labeled pixels."""

slot = "loss"
task = "segmentation"

model = dict(loss=dict(_delete_=True, type="CrossEntropy"))
