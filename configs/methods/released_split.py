"""The clients of the released split files.

Paper: Caldarola et al., ECCV 2022.

The clients of the split files released with the ECCV 2022 and FedGloSS papers, instead of clients
drawn by the same rule. fedseg prepare cifar --from writes them (docs/data_sets.md).
"""

slot = "split"

values = {
    "cifar*_a*": dict(train_dataloader=dict(partition=dict(type="ReleasedPartition"))),
    "demo_shapes": dict(train_dataloader=dict(partition=dict(type="ReleasedPartition"))),
}
