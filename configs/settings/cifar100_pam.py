# PAM: 500 clients of 100 images by Pachinko allocation, superclasses by Dir(0.1), their classes by
# Dir(10), and ResNet-18 with GroupNorm of 2 groups. The heading over the momentum 0.9 is damaged in
# the ECCV 2022 paper: it is read as in the rows of the other data sets, the clients' momentum. WIMA
# speaks of the server's: methods/fedavgm.py. Two local epochs and 20 clients per round
# are published too.
_base_ = "../_base_/cifar100.py"

model = dict(type="ResNet18GN", groups=2)
train_dataloader = dict(
    batch_size=20,
    partition=dict(_delete_=True, type="PachinkoPartition", num_clients=500, alpha=0.1, beta=10.0),
)
client_sampler = dict(clients_per_round=10)
optim_wrapper = dict(optimizer=dict(momentum=0.9))
train_cfg = dict(max_rounds=10_000)
