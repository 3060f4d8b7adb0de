"""FedDrive's settings with the protocol of its released code.

Paper: Fantauzzo et al., IROS 2022.

What FedDrive's released code runs, and its site's tables report (docs/feddrive.md).
"""

slot = "protocol"

__protocol = dict(
    train_dataloader=dict(batch_size=16, drop_last=True),
    train_cfg=dict(max_rounds=1600, amp=True),
    client_sampler=dict(type="RoundSeededSampler"),
)

values = {
    "cityscapes": __protocol,
    "idda": __protocol,
    # FedDrive trains SiloBN in batches of 8, everything else in batches of 16
    "feddrive + silobn": dict(train_dataloader=dict(batch_size=8)),
}
