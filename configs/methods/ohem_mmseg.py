"""Cross-entropy of a batch's pixels with low confidence.

Paper: after Shrivastava et al., CVPR 2016.

MMSegmentation's: pixels of a batch whose class has a probability below 0.7, and at least 100,000.
"""

slot = "loss"
task = "segmentation"

model = dict(loss=dict(_delete_=True, type="OhemCrossEntropy", thres=0.7, min_kept=100000))
