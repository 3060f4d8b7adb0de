"""Weights clients by their generalization gap, for unseen domains.

Paper: Zhang et al., CVPR 2023.

The step size, in units of a client's mean share, is ours.
"""

slot = "algorithm"

algorithm = dict(_delete_=True, type="FedDGGA", step_size=0.2)
