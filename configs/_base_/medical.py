# What the medical settings share, a protocol of this suite (docs/medical.md): a client is a site,
# and all sites take part in every round. U-Net with BatchNorm, cross-entropy plus Dice, Adam; one
# local epoch, and the mean of the evaluations of the last ten rounds is reported, never the best
# one. A setting sets the data, and the foreground classes of ForegroundDice.
_base_ = "runtime.py"

model = dict(
    type="UNetSegmentor",
    loss=dict(type="DiceCrossEntropy"),
    data_preprocessor=dict(type="ImagePreprocessor", mean=[0.5, 0.5, 0.5], std=[0.5, 0.5, 0.5]),
)
train_dataloader = dict(
    batch_size=8,
    num_workers=2,
    dataset=dict(split="splits/train"),
    partition=dict(type="NaturalPartition", key="users"),
)
client_sampler = dict(type="UniformSampler")
optim_wrapper = dict(type="OptimWrapper", optimizer=dict(type="Adam", lr=1e-3))
train_cfg = dict(
    type="FederatedTrainLoop",
    max_rounds=100,
    local_epochs=1,
    val_interval=10,
    val_last_rounds=10,
    val_last_interval=1,
)
