"""Aligns the last stage with itself at a quarter of its width.

Paper: Mendieta et al., CVPR 2022.

The term is scaled to the cross-entropy, as in the released code, to which the published mu belongs:
as the paper writes it, it would be about 1e5 in an untrained ResNet56. That code also clips the
norm of the gradient at 10.
"""

slot = "regularizer"
task = "classification"
needs = "resnet"

local_loss = dict(type="FedAlign", mu=0.45, width=0.25, relative=True)
optim_wrapper = dict(clip_grad=dict(max_norm=10))
