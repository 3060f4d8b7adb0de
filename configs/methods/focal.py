"""Focal loss.

Paper: Lin et al., ICCV 2017.

Of the softmax; gamma is the paper's.
"""

slot = "loss"
task = "segmentation"

model = dict(loss=dict(_delete_=True, type="Focal", gamma=2.0))
