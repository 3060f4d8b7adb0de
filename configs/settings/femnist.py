# FEMNIST of LEAF: handwritten characters of 62 classes, a client is a writer. Network, schedule and
# batches are WIMA's (Table 1), whose 3,400 writers are those of TensorFlow Federated's files.
# Pixels are 0 to 1 and white is 1, as published. Names that begin with two underscores stay inside
# their file.
_base_ = "../_base_/classification.py"

__root = "data/femnist"
__normalize = dict(type="Normalize", mean=[0.0], std=[1.0])

model = dict(type="FEMNISTCNN", num_classes=62)
train_dataloader = dict(
    type="ResidentData",
    batch_size=10,
    dataset=dict(type="FEMNISTDataset", data_root=__root, split="train"),
    partition=dict(type="NaturalPartition", key="users"),
    transforms=[__normalize],
)
val_dataloader = dict(
    test=dict(
        type="ResidentData",
        batch_size=1000,
        dataset=dict(type="FEMNISTDataset", data_root=__root, split="test"),
        transforms=[__normalize],
    ),
)
test_dataloader = val_dataloader
client_sampler = dict(clients_per_round=10)
optim_wrapper = dict(
    type="OptimWrapper",
    optimizer=dict(type="SGD", lr=0.1, momentum=0, weight_decay=0),
)
train_cfg = dict(max_rounds=1500)
