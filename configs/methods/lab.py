# FedDrive's. The style bank's size, 8 images per domain, is ours: none was published.
slot = "style"
refuses = {"val_evaluator.type": {"only for segmentation": "Accuracy"}}

train_dataloader = dict(dataset=dict(style=dict(type="LABStyle")))
