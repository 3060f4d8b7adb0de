# Where the demo's network starts: the same network, trained by one client on rendered streets of
# other towns (Cityscapes' layout, at noon and in the evening, none in rain).
_base_ = "demo_weather.py"

__data = dict(type="CityscapesDataset", data_root="data/towns")
__size = (128, 256)  # height and width of the images

# there is one client
model = dict(num_classes=19, weights=None)
train_dataloader = dict(
    batch_size=8,
    dataset=dict(
        split="splits/uniform/train",
        pipeline=[
            dict(type="RandomScaleCrop", scale=(0.75, 1.5), crop_size=(128, 224), base_size=__size),
            dict(type="HorizontalFlip", p=0.5),
        ],
        **__data,
    ),
    partition=dict(_delete_=True, type="SinglePartition"),
)
val_dataloader = dict(
    _delete_=True,
    test=dict(
        batch_size=8,
        num_workers=0,
        dataset=dict(split="splits/uniform/test", users="test_user", test_mode=True, **__data),
    ),
)
test_dataloader = val_dataloader
client_sampler = dict(clients_per_round=1)
optim_wrapper = dict(optimizer=dict(lr=0.05, momentum=0.9))
# weights/demo_towns.pth was made with this end, which leaves the last round a rate of 0; without an
# end, a schedule of rounds reaches 0 after the last.
param_scheduler = dict(type="PolyLR", power=0.9, end=60)
train_cfg = dict(max_rounds=60, local_epochs=1, val_interval=10, val_last_rounds=1)
