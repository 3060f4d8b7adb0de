# The images of demo_shapes as photographs, CIFAR-10: clients with more of them, and smaller steps.
_base_ = "demo_shapes.py"

__root = "data/cifar10"
__test = dict(
    test=dict(dataset=dict(type="CIFAR10Dataset", data_root=__root)),
    corrupted=None,
)

train_dataloader = dict(
    batch_size=32,
    dataset=dict(type="CIFAR10Dataset", data_root=__root),
    partition=dict(num_clients=125),
)
val_dataloader = __test
test_dataloader = __test
optim_wrapper = dict(optimizer=dict(lr=0.03))
