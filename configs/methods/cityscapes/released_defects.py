"""Restores the defects of FedDrive's released code.

What FedDrive's released code does wrong, turned on: see docs/feddrive.md for what each is worth and
for the switches one by one. With SiloBN, CFSI or LAB there is more in the files of both.
"""

slot = "defects"

train_dataloader = dict(shuffle="epoch")  # the same two orders in every round
val_dataloader = dict(test=dict(drop_last=True, dataset=dict(mirror=True)))  # and scored twice
test_dataloader = val_dataloader
