"""SCAFFOLD with SAM on the clients.

Paper: Dai et al., 2023.

The FedGloSS paper gives rho and no step size: 1, as in SCAFFOLD. It publishes rho by data set:
elsewhere it is SAM's own default, untuned.
"""

slot = ["algorithm", "local_optimizer"]

algorithm = dict(_delete_=True, type="FedGamma", eta_g=1.0)
optim_wrapper = dict(type="SAMOptimWrapper", rho=0.05)
