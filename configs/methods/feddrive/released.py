"""FedDrive's settings with the protocol of its released code.

Paper: Fantauzzo et al., IROS 2022.

What FedDrive's released code runs, and its site's tables report (docs/feddrive.md).
"""

slot = "protocol"

train_dataloader = dict(batch_size=16, drop_last=True)
train_cfg = dict(max_rounds=1600, amp=True)
client_sampler = dict(type="RoundSeededSampler")
