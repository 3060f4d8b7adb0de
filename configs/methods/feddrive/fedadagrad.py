# FedDrive's: torch's own Adagrad, with eps 0.01. The learning rate is not published: 1 is ours.
slot = "algorithm"

algorithm = dict(
    _delete_=True,
    type="FedAvg",
    server_optim=dict(type="Torch", optimizer=dict(type="Adagrad", lr=1.0, eps=0.01)),
)
