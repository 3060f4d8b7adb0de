"""Clients apply the server's momentum to variance-reduced gradients.

Paper: Karimireddy et al., 2020.

WIMA's momentum; of its server learning rates, 0.1 and 1, the choice is not given: 1, the plain
average of MIME's own paper, untuned. momentum=0 is MIME-SGD.
"""

slot = "algorithm"
needs = "sgd"

algorithm = dict(_delete_=True, type="MIME", momentum=0.9, server_optim=dict(type="SGD", lr=1.0))
optim_wrapper = dict(optimizer=dict(momentum=0.0))  # clients have the server's momentum only
