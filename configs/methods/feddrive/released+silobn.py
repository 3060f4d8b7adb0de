# FedDrive trains SiloBN in batches of 8, everything else in batches of 16.
train_dataloader = dict(batch_size=8)
