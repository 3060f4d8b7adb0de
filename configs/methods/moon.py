# FedAlign's and MOON's own values; the projection head is the model's.
slot = "regularizer"
task = "classification"

local_loss = dict(type="MOON", mu=1.0, tau=0.5)
model = dict(projection=(256, 256))
