"""AdaBest with the ECCV 2022 paper's beta on CIFAR-10.

Paper: Caldarola et al., ECCV 2022.

The ECCV 2022 paper's choice on CIFAR-10. It stays at chance for 500 rounds: docs/results.md.
"""

_base_ = "adabest.py"

algorithm = dict(beta=0.9)
