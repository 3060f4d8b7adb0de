# The course report's FedSAM has 3 rounds and ten times FedAvg's learning rate.
slot = "local_optimizer"

optim_wrapper = dict(type="SAMOptimWrapper", rho=0.1, optimizer=dict(lr=0.01))
train_cfg = dict(max_rounds=3)
