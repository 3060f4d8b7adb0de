"""Control variates remove the clients' drift, at twice FedAvg's traffic.

Paper: Karimireddy et al., ICML 2020.

No paper on these data sets gives the step size: 1, as in the experiments of SCAFFOLD's own.
"""

slot = "algorithm"

algorithm = dict(_delete_=True, type="SCAFFOLD", eta_g=1.0)
