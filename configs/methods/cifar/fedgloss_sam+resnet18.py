# The clients' rho is the only value in the paper's table for this network, without the schedule of
# the CNN (T_s is 0).
_base_ = "fedgloss_sgd+resnet18.py"

optim_wrapper = dict(rho=0.01, rho0=None, rho_rounds=0)
