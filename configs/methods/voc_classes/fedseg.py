# The paper's weight of the pseudo-labels on Pascal VOC.
_base_ = "../fedseg.py"

local_loss = dict(pseudo=0.1)
