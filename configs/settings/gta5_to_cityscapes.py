# The clients of Cityscapes without labels, from a model that the server has trained on GTA5
# (gta5_centralized.py), as in LADD (Shenaj et al., WACV 2023). Network and protocol are FedDrive's.
_base_ = "cityscapes_heterogeneous.py"

load_from = "work_dirs/gta5_centralized/seed0/checkpoints/round_000015.pth"
train_dataloader = dict(partition=dict(unlabelled=True))
local_loss = dict(type="SelfTraining", threshold=0.9, share=0.66, every=5)
