"""Adagrad on the server.

Paper: Reddi et al., ICLR 2021.

Reddi et al.'s form. The ECCV 2022 paper has beta_1 = 0; its server learning rate among 0.001, 0.01,
0.1 and 1 is not given, and tau neither: 0.1 and 1e-3 are ours.
"""

slot = "algorithm"

algorithm = dict(
    _delete_=True,
    type="FedAvg",
    server_optim=dict(type="Adagrad", lr=0.1, beta1=0.0, tau=1e-3),
)

values = {
    # FedDrive's: torch's own Adagrad, with eps 0.01; the learning rate is not published: 1 is ours
    "feddrive": dict(
        algorithm=dict(
            server_optim=dict(
                _delete_=True,
                type="Torch",
                optimizer=dict(type="Adagrad", lr=1.0, eps=0.01),
            )
        )
    ),
    "classes": {},
}
