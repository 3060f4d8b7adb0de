# The momentum 0.9 is the server's, as WIMA says, and the clients have none.
_base_ = "../fedavgm.py"

optim_wrapper = dict(optimizer=dict(momentum=0))
