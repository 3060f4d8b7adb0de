"""Gives images the color statistics of other clients' images.

Paper: Fantauzzo et al., IROS 2022.

FedDrive's. The style bank's size, 8 images per domain, is ours: none was published.
"""

slot = "style"
task = "segmentation"

train_dataloader = dict(dataset=dict(style=dict(type="LABStyle")))
