"""Dual variables align the clients' minima with the global one.

Paper: Acar et al., ICLR 2021.

alpha = 0.01 in the paper's notation, beta = 1/alpha. FedDyn is published with "heavy gradient
clipping" and without the bound: this one is ours.
"""

slot = "algorithm"

algorithm = dict(_delete_=True, type="FedDyn", beta=100)
optim_wrapper = dict(clip_grad=dict(max_norm=10))
