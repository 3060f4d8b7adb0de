"""FedAvg with momentum on the server.

Paper: Hsu et al., 2019.

The server's momentum of the ECCV 2022 paper, FedDrive and WIMA.
"""

slot = "algorithm"

algorithm = dict(_delete_=True, type="FedAvg", server_optim=dict(type="SGD", lr=1.0, momentum=0.9))
