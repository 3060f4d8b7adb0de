# This network is trained with momentum; the clients of MIME have none of their own.
optim_wrapper = dict(optimizer=dict(momentum=0.0))
