# The course report's SCAFFOLD: 3 rounds, ten times FedAvg's learning rate, and a momentum of 0.001.
_base_ = "mnist_a01.py"

optim_wrapper = dict(optimizer=dict(lr=0.01, momentum=0.001))
train_cfg = dict(max_rounds=3)
