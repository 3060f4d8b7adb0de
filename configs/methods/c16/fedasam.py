# No radius is published for ResNet-56: ASAM's own default, untuned.
_base_ = "../fedasam.py"
