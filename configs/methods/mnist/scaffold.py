# The course report's SCAFFOLD: 3 rounds, ten times FedAvg's learning rate, and a momentum of 0.001,
# which is counted.
slot = "algorithm"

algorithm = dict(_delete_=True, type="SCAFFOLD", eta_g=1.0, count_momentum=True)
optim_wrapper = dict(optimizer=dict(lr=0.01, momentum=0.001))
train_cfg = dict(max_rounds=3)
