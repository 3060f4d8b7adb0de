"""Mixes the low frequencies of other clients' images into the training images.

Paper: Liu et al., CVPR 2021.

FedDrive's. The style bank's size, 8 images per domain, is ours: none was published.
"""

slot = "style"
task = "segmentation"

train_dataloader = dict(dataset=dict(style=dict(type="CFSIStyle")))
