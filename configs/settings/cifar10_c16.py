# FedAlign's clients and training: each class split over 16 clients by Dir(0.5), so that their sizes
# differ, and balanced as in its released code, on whose clients its numbers stand; all of them in
# each of 25 rounds, 20 local epochs at a fixed learning rate; ResNet-56 of bottleneck blocks with
# BatchNorm. The paper says "SGD with momentum" and neither its value nor the weight decay nor the
# size of batches: they are those of its released code, momentum in Nesterov's form.
_base_ = "../_base_/cifar10.py"

model = dict(type="ResNet56")
train_dataloader = dict(
    partition=dict(
        _delete_=True, type="DirichletClassPartition", num_clients=16, alpha=0.5, balanced=True
    ),
)
client_sampler = dict(clients_per_round=16)
optim_wrapper = dict(optimizer=dict(momentum=0.9, nesterov=True, weight_decay=1e-4))
train_cfg = dict(
    max_rounds=25, local_epochs=20, val_interval=1, val_last_rounds=1, val_last_interval=1
)
