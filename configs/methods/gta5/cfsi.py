# GTA5's images in the styles of Cityscapes' clients, as the server trains in LADD.
_base_ = "../cfsi.py"

__clients = dict(
    type="CityscapesDataset", data_root="data/cityscapes", split="splits/heterogeneous/train"
)

train_dataloader = dict(dataset=dict(style=dict(source=__clients)))
