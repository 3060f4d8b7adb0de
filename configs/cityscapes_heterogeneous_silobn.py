_base_ = "settings/cityscapes_heterogeneous_batch8.py"
methods = ["silobn"]
