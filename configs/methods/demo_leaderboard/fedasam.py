# The radius of Cityscapes, whose learning rate this is.
_base_ = "../cityscapes/fedasam.py"
