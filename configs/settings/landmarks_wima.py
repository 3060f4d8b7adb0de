# WIMA's rounds and batches.
_base_ = "landmarks.py"

train_dataloader = dict(batch_size=50)
train_cfg = dict(max_rounds=3000)
