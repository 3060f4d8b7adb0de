# Clients have the server's momentum and, as in the paper, none of their own.
_base_ = "../mimelite.py"

optim_wrapper = dict(optimizer=dict(momentum=0.0))
