# Median frequency balancing, Eigen and Fergus, ICCV 2015, over the participating clients, which
# send the pixels of each class and of the images that contain it.
slot = ["regularizer", "loss"]
refuses = {"val_evaluator.type": {"only for segmentation": "Accuracy"}}

local_loss = dict(_delete_=True, type="ClassWeights")
