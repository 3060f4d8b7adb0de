# Median frequency balancing, Eigen and Fergus, ICCV 2015, by the classes' frequencies over the
# participating clients, which send counts.
slot = ["regularizer", "loss"]
refuses = {"val_evaluator.type": {"only for segmentation": "Accuracy"}}

local_loss = dict(_delete_=True, type="ClassWeights")
