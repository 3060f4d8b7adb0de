# MNIST on 5 clients, as in the course report's FedAvg: all of them in each of 5 rounds, 20 local
# epochs, accuracy after each round; the reported metric is the last one. The report gives neither
# the batch size of its FedAvg runs (this is that of its others) nor the channels and kernels of its
# CNN nor the way it draws clients: here each class is split over them by Dir(alpha), sizes differ.
# Names that begin with two underscores stay inside their file.
_base_ = "runtime.py"

__root = "data/mnist"
__normalize = dict(type="Normalize", mean=[0.1307], std=[0.3081])

model = dict(type="MNISTCNN", num_classes=10)
train_dataloader = dict(
    type="ResidentData",
    batch_size=32,
    dataset=dict(type="MNISTDataset", data_root=__root, split="train"),
    partition=dict(type="DirichletClassPartition", num_clients=5),
    transforms=[__normalize],
)
val_dataloader = dict(
    test=dict(
        type="ResidentData",
        batch_size=1000,
        dataset=dict(type="MNISTDataset", data_root=__root, split="test"),
        transforms=[__normalize],
    ),
)
test_dataloader = val_dataloader
val_evaluator = dict(type="Accuracy")
test_evaluator = val_evaluator
client_sampler = dict(type="UniformSampler", clients_per_round=5)
optim_wrapper = dict(
    type="OptimWrapper",
    optimizer=dict(type="SGD", lr=0.001, momentum=0, weight_decay=0),
)
train_cfg = dict(
    type="FederatedTrainLoop",
    max_rounds=5,
    local_epochs=20,
    val_interval=1,
    val_last_rounds=1,
    val_last_interval=1,
)
