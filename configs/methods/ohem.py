"""Cross-entropy of each image's quarter of pixels with the highest loss.

Paper: Fantauzzo et al., IROS 2022.

FedDrive's: of each image the quarter of its pixels with the highest loss.
"""

slot = "loss"
task = "segmentation"

model = dict(loss=dict(_delete_=True, type="OHEMCrossEntropy", ratio=0.25))
