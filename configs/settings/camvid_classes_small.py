# The images of camvid_small with two clients a class, which know that class only. Rates and
# evaluations are of FedSeg's schedule (camvid_classes.py) with an eighth of its rounds: heads
# at ten times the rate, which stays as it is, and the mean of the last five evaluations.
_base_ = "camvid_small.py"

train_dataloader = dict(
    partition=dict(_delete_=True, type="ClassHeterogeneous", clients_per_class=2)
)
optim_wrapper = dict(
    optimizer=dict(weight_decay=5e-4),
    constructor="WeightsOnlyDecay",
    paramwise_cfg=dict(custom_keys=dict(head=dict(lr_mult=10.0))),
)
param_scheduler = None
train_cfg = dict(max_rounds=100, val_last_rounds=50, val_last_interval=10)
