"""Dice loss over the batch's labeled pixels.

Paper: Milletari et al., 3DV 2016.

By the batch's labeled pixels and classes.
"""

slot = "loss"
task = "segmentation"

model = dict(loss=dict(_delete_=True, type="Dice"))
