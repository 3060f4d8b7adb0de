# Prostate MRI: HK takes no part and is the unseen site.
_base_ = "prostate.py"

__others = ["RUNMC", "BMC", "I2CVB", "UCL", "BIDMC"]

train_dataloader = dict(dataset=dict(domains=__others))
val_dataloader = dict(
    seen=dict(dataset=dict(domains=__others)),
    unseen=dict(
        batch_size=8,
        num_workers=2,
        dataset=dict(
            type="ProstateDataset",
            data_root="data/prostate",
            split=["splits/train", "splits/test"],
            domains="HK",
            test_mode=True,
            pipeline=[dict(type="ResizeInput", size=(384, 384))],
        ),
    ),
)
test_dataloader = val_dataloader
client_sampler = dict(clients_per_round=5)
