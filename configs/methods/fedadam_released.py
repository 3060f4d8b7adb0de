"""torch's Adam on the server, as in the ECCV 2022 paper's released code.

Paper: Caldarola et al., ECCV 2022.

The ECCV 2022 paper's released code has torch's own Adam, with eps 0.1; fedadam.py has Reddi et
al.'s form. The learning rate is not published: 0.01 as there.
"""

slot = "algorithm"

algorithm = dict(
    _delete_=True,
    type="FedAvg",
    server_optim=dict(
        type="Torch", optimizer=dict(type="Adam", lr=0.01, betas=(0.9, 0.99), eps=0.1)
    ),
)
