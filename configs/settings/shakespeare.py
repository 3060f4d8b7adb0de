# Shakespeare of LEAF: the next character after 80, a client is a role. Schedule and batches are
# WIMA's (Table 1), whose network is FedJAX's and predicts after every character; this is LEAF's.
# Its column in WIMA's Table 2 cannot be read: a row has six pairs of numbers, not seven.
_base_ = "../_base_/classification.py"

__root = "data/shakespeare"

model = dict(type="CharLSTM", num_classes=80)
train_dataloader = dict(
    type="ResidentData",
    batch_size=4,
    dataset=dict(type="ShakespeareDataset", data_root=__root, split="train"),
    partition=dict(type="NaturalPartition", key="users"),
)
val_dataloader = dict(
    test=dict(
        type="ResidentData",
        batch_size=1000,
        dataset=dict(type="ShakespeareDataset", data_root=__root, split="test"),
    ),
)
test_dataloader = val_dataloader
client_sampler = dict(clients_per_round=10)
optim_wrapper = dict(
    type="OptimWrapper",
    optimizer=dict(type="SGD", lr=1.0, momentum=0, weight_decay=0),
)
train_cfg = dict(max_rounds=1500)
