# For images of 224x224: the resolutions of GradAug's own ImageNet experiments.
_base_ = "../gradaug.py"

local_loss = dict(resolutions=(224, 192, 160, 128))
