# No radius is published for ResNet-56: SAM's own default, untuned.
_base_ = "../fedsam.py"
