"""FedDyn for the model and for SAM's perturbation.

Paper: Sun et al., ICML 2023.

The choice within the FedGloSS paper's grids is lost in its table. rho (of 0.05, 0.1, 0.15, 0.2 on
CIFAR-10, of 0.005 to 0.2 on CIFAR-100, of 0.05 to 0.3 on Landmarks-User-160k) and beta (10 is in
all three) are the defaults of FedSMOO's released code, whose proximal coefficient 0.1 is 1/beta.
Untuned. That code clips gradients at norm 10, too. It perturbs the weights by a rule of its own.
"""

slot = ["algorithm", "local_optimizer"]

algorithm = dict(_delete_=True, type="FedSMOO", rho=0.1, beta=10)
optim_wrapper = dict(clip_grad=dict(max_norm=10))

values = {
    # The paper has no segmentation experiment: values of the FedGloSS paper's grid for
    # Landmarks-User-160k (rho 0.05, 0.1, 0.2, 0.3; beta 10, 50, 100, 1000), untuned: the smallest
    # rho, because that of SAM is smaller here, and the beta of FedDyn on this data
    "feddrive": dict(algorithm=dict(rho=0.05, beta=100)),
    "classes": {},
    # the only value for this network in the FedGloSS paper's table
    "cifar*_resnet18": dict(algorithm=dict(rho=0.01)),
}
