# ECCV 2022, appendix C.2: the server's rate is 0.1 here.
_base_ = "../fedavgm.py"

algorithm = dict(server_optim=dict(lr=0.1))
