# The course report's FedSAM has 3 rounds and ten times FedAvg's learning rate.
_base_ = "mnist_a2.py"

optim_wrapper = dict(optimizer=dict(lr=0.01))
train_cfg = dict(max_rounds=3)
