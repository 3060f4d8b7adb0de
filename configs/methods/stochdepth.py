"""Skips residual blocks at random.

Paper: Huang et al., ECCV 2016.

FedAlign's: the last block is there with probability 0.9, those before it more often.
"""

slot = "regularizer"
task = "classification"
needs = "resnet"

model = dict(stochastic_depth=0.9)
