# The same half of a client's images in every epoch.
train_dataloader = dict(dataset=dict(style=dict(fixed_half=True)))
