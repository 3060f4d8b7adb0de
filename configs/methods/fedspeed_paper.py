"""FedSpeed by the printed rule: the corrections of the participants only.

Paper: Sun et al., ICLR 2023.

The server's rule as printed: the corrections of the participants instead of all clients'. Values as
in fedspeed.py.
"""

slot = ["algorithm", "local_optimizer"]

algorithm = dict(_delete_=True, type="FedSpeed", rho=0.1, alpha=0.95, lam=10, all_corrections=False)
optim_wrapper = dict(clip_grad=dict(max_norm=10))
