# The paper has no segmentation experiment: values of the FedGloSS paper's grid for
# Landmarks-User-160k (rho 0.05, 0.1, 0.2, 0.3; beta 10, 50, 100, 1000), untuned: the smallest rho,
# because that of SAM is smaller here, and the beta of FedDyn on this data.
_base_ = "../fedsmoo.py"

algorithm = dict(rho=0.05, beta=100)
