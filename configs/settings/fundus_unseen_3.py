# Fundus photographs: REFUGE"s training photographs take no part and are the unseen site.
_base_ = "fundus.py"

__others = ["Domain1", "Domain2", "Domain4"]

train_dataloader = dict(dataset=dict(domains=__others))
val_dataloader = dict(
    seen=dict(dataset=dict(domains=__others)),
    unseen=dict(
        batch_size=8,
        num_workers=2,
        dataset=dict(
            type="FundusDataset",
            data_root="data/fundus",
            split=["splits/train", "splits/test"],
            domains="Domain3",
            test_mode=True,
            pipeline=[dict(type="ResizeInput", size=(384, 384))],
        ),
    ),
)
test_dataloader = val_dataloader
client_sampler = dict(clients_per_round=3)
