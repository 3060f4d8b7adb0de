"""FedDrive's settings with the protocol of the ECCV 2022 paper.

Paper: Caldarola et al., ECCV 2022.

What the ECCV 2022 paper states of its FedDrive experiments; the rest is as released
(docs/feddrive.md).
"""

slot = "protocol"

__protocol = dict(
    train_dataloader=dict(batch_size=8, drop_last=True),
    train_cfg=dict(max_rounds=1500, amp=False),
    client_sampler=dict(type="RoundSeededSampler"),
)

values = {
    "cityscapes": __protocol,
    "idda": __protocol,
}
