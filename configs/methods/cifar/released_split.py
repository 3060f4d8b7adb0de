# The clients of the split files released with the ECCV 2022 and FedGloSS papers, instead of clients
# drawn by the same rule. tools/prepare_cifar.py --from writes them (docs/data_sets.md).
slot = "split"

train_dataloader = dict(partition=dict(type="ReleasedPartition"))
