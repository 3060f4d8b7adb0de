"""torch's Adagrad on the server, as in the ECCV 2022 paper's released code.

Paper: Caldarola et al., ECCV 2022.

The ECCV 2022 paper's released code has torch's own Adagrad, eps 0.01; fedadagrad.py has Reddi et
al.'s form. The learning rate is not published: 0.1 as there.
"""

slot = "algorithm"

algorithm = dict(
    _delete_=True,
    type="FedAvg",
    server_optim=dict(type="Torch", optimizer=dict(type="Adagrad", lr=0.1, eps=0.01)),
)
