"""Drift estimates that decay with the rounds since a client's last participation.

Paper: Varno et al., ECCV 2022.

The ECCV 2022 paper's choice on CIFAR-100, from mu 0.01 and 0.02, and beta 0.8 and 0.9. Its beta on
CIFAR-10, 0.9 (adabest_paper.py), stays at chance: docs/results.md.
"""

slot = "algorithm"

algorithm = dict(_delete_=True, type="AdaBest", mu=0.02, beta=0.8)
