"""Contrasts features with those of the received and the client's previous model.

Paper: Li et al., CVPR 2021.

FedAlign's and MOON's own values; the projection head is the model's.
"""

slot = "regularizer"
task = "classification"

local_loss = dict(type="MOON", mu=1.0, tau=0.5)
model = dict(projection=(256, 256))
