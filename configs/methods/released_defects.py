"""Restores the defects of FedDrive's released code.

What FedDrive's released code does wrong, turned on: see docs/feddrive.md for what each is worth and
for the switches one by one. With CFSI or LAB there is more in their files.
"""

slot = "defects"

__cityscapes = dict(test=dict(drop_last=True, dataset=dict(mirror=True)))
__idda = dict(unseen=dict(drop_last=True), seen=dict(drop_last=True))

values = {
    "cityscapes": dict(
        train_dataloader=dict(shuffle="epoch"),  # the same two orders in every round
        val_dataloader=__cityscapes,  # and scored twice
        test_dataloader=__cityscapes,
    ),
    "idda": dict(
        train_dataloader=dict(shuffle="epoch"),  # the same two orders in every round
        val_dataloader=__idda,
        test_dataloader=__idda,
    ),
    # they inherit from settings of FedDrive, and have no defects of its
    "camvid_small": None,
    "demo_towns_centralized": None,
    "gta5_centralized": None,
}
