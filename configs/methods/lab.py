# FedDrive's. The style bank's size, 8 images per domain, is ours: none was published.
slot = "style"
task = "segmentation"

train_dataloader = dict(dataset=dict(style=dict(type="LABStyle")))
