# Of the two radii that are published for street scenes, the smaller one.
_base_ = "../cityscapes/fedasam.py"
