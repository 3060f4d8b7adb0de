# FedDrive's network and rounds: its BiSeNetV2 with four auxiliary heads; 5 clients, 2 local epochs,
# 1500 rounds; the mean of the evaluations in the last 100 rounds is the reported metric. The
# papers name a polynomial decay of the learning rate; in the released federated runs it leaves
# 0.9999 of it at the end, so the rate is constant here. The data set's file sets num_classes,
# mean and std.
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
