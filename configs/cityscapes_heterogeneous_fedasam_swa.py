_base_ = "settings/cityscapes_heterogeneous_paper.py"
methods = ["fedasam", "swa"]
