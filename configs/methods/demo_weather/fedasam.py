# The radius of Cityscapes: with IDDA's the demo's clients, at a fifth of IDDA's rate, learn less.
_base_ = "../cityscapes/fedasam.py"
