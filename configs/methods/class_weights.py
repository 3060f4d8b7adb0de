"""Weights classes by their frequency over the participating clients.

Paper: Eigen and Fergus, ICCV 2015.

Median frequency balancing: clients send the pixels of each class and of the images that contain it.
"""

slot = ["regularizer", "loss"]
task = "segmentation"

local_loss = dict(_delete_=True, type="ClassWeights")
