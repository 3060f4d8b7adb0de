# Polyps: CVC-ClinicDB takes no part and is the unseen set.
_base_ = "polyps.py"

__others = ["Kvasir", "CVC-ColonDB", "ETIS-LaribPolypDB"]

train_dataloader = dict(dataset=dict(domains=__others))
val_dataloader = dict(
    seen=dict(dataset=dict(domains=__others)),
    unseen=dict(
        batch_size=8,
        num_workers=2,
        dataset=dict(
            type="PolypsDataset",
            data_root="data/polyps",
            split=["splits/train", "splits/test"],
            domains="CVC-ClinicDB",
            test_mode=True,
            pipeline=[dict(type="ResizeInput", size=(352, 352))],
        ),
    ),
)
test_dataloader = val_dataloader
client_sampler = dict(clients_per_round=3)
