# Clients that know few classes, as in FedSeg (Miao et al., CVPR 2023): BiSeNetV2, 5 clients a
# round, 2 local epochs of full batches, heads at ten times the learning rate, no weight decay on
# biases and BatchNorm. Reported is the mean of the last five evaluations, one every 20 rounds.
# Published runs start from ImageNet weights of the backbone (model.weights). The released scripts
# say momentum 0.99, meant for the prototypes, which SGD takes too: here it is 0.9.
_base_ = "feddrive.py"

model = dict(type="BiSeNetV2Segmentor", loss=dict(_delete_=True, type="CrossEntropy"))
train_dataloader = dict(batch_size=8, drop_last=True, num_workers=2)
optim_wrapper = dict(
    constructor="WeightsOnlyDecay",
    paramwise_cfg=dict(custom_keys=dict(head=dict(lr_mult=10.0))),
)
train_cfg = dict(val_interval=20, val_last_interval=20)
