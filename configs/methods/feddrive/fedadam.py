# FedDrive's: torch's own Adam, with eps 0.1. The learning rate is not published: 1 is ours.
slot = "algorithm"

algorithm = dict(
    _delete_=True,
    type="FedAvg",
    server_optim=dict(
        type="Torch", optimizer=dict(type="Adam", lr=1.0, betas=(0.9, 0.99), eps=0.1)
    ),
)
