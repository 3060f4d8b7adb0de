# What every experiment shares: FedAvg, plain averaging of the clients' models, and what no paper
# speaks of.

randomness = dict(seed=0)
executor = dict(type="InProcessExecutor")
algorithm = dict(type="FedAvg", server_optim=dict(type="SGD", lr=1.0))
val_cfg = dict(type="FederatedValLoop")
test_cfg = dict(type="FederatedTestLoop")
default_hooks = dict(
    checkpoint=dict(type="FederatedCheckpointHook", interval=10, keep_last=2, keep_every=0),
)
