"""The normalization of the ECCV 2022 paper's released code.

Paper: Caldarola et al., ECCV 2022.

The ECCV 2022 paper's rows: on CIFAR-10 its released code divides by deviations that are not those
of the training images, as in FedGloSS and FedAlign; on CIFAR-100 the statistics differ in the
fourth digit.
"""

slot = "protocol"

__cifar10 = dict(type="Normalize", mean=[0.4914, 0.4822, 0.4465], std=[0.2023, 0.1994, 0.2010])
__cifar100 = dict(type="Normalize", mean=[0.5071, 0.4867, 0.4408], std=[0.2675, 0.2565, 0.2761])

values = {
    "cifar10": dict(
        train_dataloader=dict(
            transforms=[
                dict(type="RandomCrop", padding=4),
                dict(type="RandomFlip", prob=0.5),
                __cifar10,
            ],
        ),
        val_dataloader=dict(
            test=dict(transforms=[__cifar10]), corrupted=dict(transforms=[__cifar10])
        ),
        test_dataloader=dict(
            test=dict(transforms=[__cifar10]), corrupted=dict(transforms=[__cifar10])
        ),
    ),
    "cifar100": dict(
        train_dataloader=dict(
            transforms=[
                dict(type="RandomCrop", padding=4),
                dict(type="RandomFlip", prob=0.5),
                __cifar100,
            ],
        ),
        val_dataloader=dict(
            test=dict(transforms=[__cifar100]), corrupted=dict(transforms=[__cifar100])
        ),
        test_dataloader=dict(
            test=dict(transforms=[__cifar100]), corrupted=dict(transforms=[__cifar100])
        ),
    ),
}
