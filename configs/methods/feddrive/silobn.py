# FedDrive's batches of 8, where it trains FedAvg in batches of 16.
_base_ = "../silobn.py"

train_dataloader = dict(batch_size=8)
