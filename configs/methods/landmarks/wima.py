# WIMA has 3,000 rounds and batches of 50.
slot = "average"

averaging = dict(type="WIMA", window=370)
train_dataloader = dict(batch_size=50)
train_cfg = dict(max_rounds=3000)
