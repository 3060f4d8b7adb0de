# The clients' rho is the only value in the paper's table for this network, without the schedule of
# the CNN (T_s is 0).
_base_ = "fedgloss_sgd+resnet18.py"

optim_wrapper = dict(
    _delete_=True,
    type="SAMOptimWrapper",
    rho=0.01,
    optimizer=dict(type="SGD", lr=0.01, momentum=0.7, weight_decay=1e-5),
)
