"""Mean of the clients' models; the baseline of every setting.

Paper: McMahan et al., AISTATS 2017.

What every setting has already; named to be merged over a config of one's own.
"""

slot = "algorithm"

algorithm = dict(_delete_=True, type="FedAvg", server_optim=dict(type="SGD", lr=1.0))
