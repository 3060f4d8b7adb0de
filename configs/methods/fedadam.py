"""Adam on the server.

Paper: Reddi et al., ICLR 2021.

Reddi et al.'s form. The ECCV 2022 paper has betas 0.9 and 0.99; its server learning rate among
0.001, 0.01, 0.1 and 1 is not given, and tau neither: 0.01 and 1e-3 are ours.
"""

slot = "algorithm"

algorithm = dict(
    _delete_=True,
    type="FedAvg",
    server_optim=dict(type="Adam", lr=0.01, betas=(0.9, 0.99), tau=1e-3),
)

values = {
    # FedDrive's: torch's own Adam, with eps 0.1; the learning rate is not published: 1 is ours
    "feddrive": dict(
        algorithm=dict(
            server_optim=dict(
                _delete_=True,
                type="Torch",
                optimizer=dict(type="Adam", lr=1.0, betas=(0.9, 0.99), eps=0.1),
            )
        )
    ),
    "classes": {},
}
