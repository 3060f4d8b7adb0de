# The same half of a client's images in every epoch; values are not clipped.
train_dataloader = dict(dataset=dict(style=dict(fixed_half=True, clip=False)))
