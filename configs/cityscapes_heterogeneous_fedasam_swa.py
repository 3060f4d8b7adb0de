_base_ = "settings/cityscapes_heterogeneous.py"
methods = ["fedasam", "swa"]
