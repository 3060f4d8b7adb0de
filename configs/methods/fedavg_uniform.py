"""FedAvg in which all clients have the same weight.

The course report averages by 1/N, whatever the clients' sizes; with fedsam it is its FedSAM.
"""

slot = "algorithm"

algorithm = dict(_delete_=True, type="FedAvg", uniform=True)
