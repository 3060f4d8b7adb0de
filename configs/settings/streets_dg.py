# Domain generalisation across cameras and continents: clients hold Cityscapes, BDD100K, Mapillary
# Vistas (LADD's map) and IDD, each a domain; unseen are ACDC's four conditions.
# data_root is the folder that holds the folders of the data sets.
_base_ = "../_base_/listed.py"

__joined = dict(type="JoinedDataset", data_root="data")
__cityscapes = dict(type="CityscapesDataset", data_root="cityscapes")
__bdd100k = dict(type="BDD100KDataset", data_root="bdd100k")
__mapillary = dict(type="MapillaryADataset", data_root="mapillary")
__idd = dict(type="IDDDataset", data_root="idd")
__acdc = dict(type="ACDCDataset", data_root="acdc", split="splits/test")
__crop = dict(type="RandomScaleCrop", scale=(0.5, 1.5), crop_size=(512, 1024))

train_dataloader = dict(
    dataset=dict(
        _delete_=True,
        parts=dict(
            cityscapes=dict(split="splits/heterogeneous/train", **__cityscapes),
            bdd100k=dict(split="splits/train", **__bdd100k),
            mapillary_a=dict(split="splits/train", **__mapillary),
            idd=dict(split="splits/train", **__idd),
        ),
        pipeline=[
            dict(type="SmallestMaxSize", max_size=1024),  # of 720 to 4,000 pixels
            __crop,
            dict(type="HorizontalFlip", p=0.5),
        ],
        **__joined,
    ),
)
val_dataloader = dict(
    seen=dict(
        batch_size=1,
        num_workers=2,
        dataset=dict(
            parts=dict(
                cityscapes=dict(split="splits/heterogeneous/test", **__cityscapes),
                bdd100k=dict(split="splits/test", **__bdd100k),
                mapillary_a=dict(split="splits/test", **__mapillary),
                idd=dict(split="splits/test", **__idd),
            ),
            test_mode=True,
            **__joined,
        ),
    ),
    unseen_fog=dict(
        batch_size=4,
        num_workers=2,
        dataset=dict(parts=dict(acdc=dict(domains="fog", **__acdc)), test_mode=True, **__joined),
    ),
    unseen_night=dict(
        batch_size=4,
        num_workers=2,
        dataset=dict(parts=dict(acdc=dict(domains="night", **__acdc)), test_mode=True, **__joined),
    ),
    unseen_rain=dict(
        batch_size=4,
        num_workers=2,
        dataset=dict(parts=dict(acdc=dict(domains="rain", **__acdc)), test_mode=True, **__joined),
    ),
    unseen_snow=dict(
        batch_size=4,
        num_workers=2,
        dataset=dict(parts=dict(acdc=dict(domains="snow", **__acdc)), test_mode=True, **__joined),
    ),
)
test_dataloader = val_dataloader
