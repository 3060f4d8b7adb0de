# No paper trains it here; the setting's own network has groups.
_base_ = "../resnet56.py"

model = dict(groups=None)
