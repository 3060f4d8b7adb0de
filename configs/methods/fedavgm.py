"""FedAvg with momentum on the server.

Paper: Hsu et al., 2019.

The server's momentum of the ECCV 2022 paper, FedDrive and WIMA.
"""

slot = "algorithm"

algorithm = dict(_delete_=True, type="FedAvg", server_optim=dict(type="SGD", lr=1.0, momentum=0.9))

values = {
    # the momentum 0.9 is the server's, as WIMA says, and the clients have none
    "cifar100_pam": dict(optim_wrapper=dict(optimizer=dict(momentum=0))),
    # ECCV 2022, appendix C.2
    "landmarks": dict(algorithm=dict(server_optim=dict(lr=0.1))),
}
