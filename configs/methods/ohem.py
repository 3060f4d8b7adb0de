# FedDrive's: of each image the quarter of its pixels with the highest loss.
slot = "loss"
refuses = {"val_evaluator.type": "Accuracy"}  # for segmentation

model = dict(loss=dict(_delete_=True, type="OHEMCrossEntropy", ratio=0.25))
