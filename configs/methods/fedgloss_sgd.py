"""SAM on the server at FedAvg's traffic, SGD on the clients.

Paper: Caldarola et al., CVPR 2025.

The choice within the FedGloSS paper's grid for Landmarks-User-160k is lost in its table. Here it is
rho_server 0.01 (of 0.005, 0.01, 0.02) and beta 100 (of 10, 50, 100), untuned. T_s is 0. The paper
has no segmentation experiment and none on MNIST: these values, untuned.
"""

slot = ["algorithm", "local_optimizer"]

algorithm = dict(_delete_=True, type="FedGloSS", rho_server=0.01, beta=100)
