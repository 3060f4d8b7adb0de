"""Clients start at the server momentum's lookahead point.

Paper: Kim et al., CVPR 2024.

WIMA's grids are 0.8, 0.85 and 0.9 for lambda and 0.01 and 0.001 for beta; its choice is not given.
These are the numbers of FedACG's released configuration (where beta lacks the 1/2), untuned.
"""

slot = "algorithm"

algorithm = dict(_delete_=True, type="FedACG", lam=0.85, beta=0.001)
