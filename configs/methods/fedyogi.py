"""Yogi on the server.

Paper: Reddi et al., ICLR 2021.

Reddi et al.'s; no paper here has published values of it: those of fedadam.py, untuned.
"""

slot = "algorithm"

algorithm = dict(
    _delete_=True,
    type="FedAvg",
    server_optim=dict(type="Yogi", lr=0.01, betas=(0.9, 0.99), tau=1e-3),
)
