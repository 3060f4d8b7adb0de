# What FedDrive's two protocols share: its BiSeNetV2 with four auxiliary heads, 5 clients a round, 2
# local epochs; the mean of the evaluations in the last 100 rounds is the reported metric. Rounds,
# batch size, precision and the drawing of clients are up to the settings (docs/feddrive.md).
#
# A polynomial decay of the learning rate is stated; in the released code it spans 10,000 times a
# client's steps and begins anew with every client, so that 0.9999 of the rate is left at the end:
# here it is constant. The data set's file sets num_classes.
_base_ = "runtime.py"

model = dict(
    type="FedDriveBiSeNetV2Segmentor",
    num_classes=19,
    loss=dict(type="OHEMCrossEntropy", ratio=0.25),
    data_preprocessor=dict(type="ImagePreprocessor", mean=[0.5, 0.5, 0.5], std=[0.5, 0.5, 0.5]),
)
val_evaluator = dict(type="IoUMetric")
test_evaluator = val_evaluator
client_sampler = dict(type="UniformSampler", clients_per_round=5)
optim_wrapper = dict(
    type="OptimWrapper",
    optimizer=dict(type="SGD", lr=0.05, momentum=0.9, weight_decay=5e-4),
)
train_cfg = dict(
    type="FederatedTrainLoop",
    max_rounds=1500,
    local_epochs=2,
    val_interval=50,
    val_last_rounds=100,
    val_last_interval=5,
)
