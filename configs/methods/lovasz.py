"""Lovasz-softmax loss.

Paper: Berman et al., CVPR 2018.

By the batch's labeled pixels and classes.
"""

slot = "loss"
task = "segmentation"

model = dict(loss=dict(_delete_=True, type="LovaszSoftmax"))
