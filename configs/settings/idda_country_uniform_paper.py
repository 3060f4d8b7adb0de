# The ECCV 2022 paper's protocol; what it does not state is as released (docs/feddrive.md).
_base_ = "idda_country_uniform.py"

train_dataloader = dict(batch_size=8)
train_cfg = dict(max_rounds=1500, amp=False)
