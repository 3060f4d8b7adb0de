"""Mixes the low frequencies of other clients' images into the training images.

Paper: Liu et al., CVPR 2021.

FedDrive's. The style bank's size, 8 images per domain, is ours: none was published.
"""

slot = "style"
task = "segmentation"

train_dataloader = dict(dataset=dict(style=dict(type="CFSIStyle")))

__any_image = dict(
    train_dataloader=dict(dataset=dict(style=dict(images_per_domain=None, exclude=None)))
)
__of_clients = dict(
    train_dataloader=dict(
        dataset=dict(
            style=dict(
                source=dict(
                    type="CityscapesDataset",
                    data_root="data/cityscapes",
                    split="splits/heterogeneous/train",
                )
            )
        )
    )
)

values = {
    # FedDrive's: any training image of another town or weather gives its style
    "idda": dict(
        train_dataloader=dict(dataset=dict(style=dict(images_per_domain=None, exclude="condition")))
    ),
    # FedDrive's on Cityscapes: any training image gives its style, those of the own city too
    "feddrive": __any_image,
    "camvid_small": __any_image,
    # images of the game in the styles of Cityscapes' clients, as the server trains in LADD
    "gta5": __of_clients,
    "gta5_centralized": __of_clients,
    "classes": {},
    # the same half of a client's images in every epoch; values are not clipped
    "feddrive + released_defects": dict(
        train_dataloader=dict(dataset=dict(style=dict(fixed_half=True, clip=False)))
    ),
}
