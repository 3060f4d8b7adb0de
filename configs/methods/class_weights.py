# Median frequency balancing, Eigen and Fergus, ICCV 2015, over the participating clients, which
# send the pixels of each class and of the images that contain it.
slot = ["regularizer", "loss"]
task = "segmentation"

local_loss = dict(_delete_=True, type="ClassWeights")
