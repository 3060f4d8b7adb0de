"""Clients without labels learn from a teacher's labels.

Paper: Shenaj et al., WACV 2023.

LADD's self-training. When the teacher is renewed is ours. It needs a model that was trained before:
load_from.
"""

slot = "regularizer"
task = "segmentation"

local_loss = dict(type="SelfTraining", threshold=0.9, share=0.66, every=5)
train_dataloader = dict(partition=dict(unlabelled=True))
