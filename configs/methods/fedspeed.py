"""Mixes in SAM's gradient, with a proximal term and its correction.

Paper: Sun et al., ICLR 2023.

The choice within the FedGloSS paper's grid is lost in its table. rho (of 0.05, 0.1, 0.15, 0.2) and
lambda (of 10, 100, 1000) are the defaults of FedSpeed's released code, whose proximal coefficient
0.1 is 1/lambda; alpha is the middle of 0.9, 0.95, 0.99. Untuned. That code clips gradients at norm
10, too, and averages the corrections of all clients; by the printed rule (fedspeed_paper.py) few
clients per round hardly learn: docs/results.md. It perturbs the weights by a rule of its own.
"""

slot = ["algorithm", "local_optimizer"]

algorithm = dict(_delete_=True, type="FedSpeed", rho=0.1, alpha=0.95, lam=10, all_corrections=True)
optim_wrapper = dict(clip_grad=dict(max_norm=10))
