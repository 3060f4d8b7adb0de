# Prostate in the MRI slices of six sites, each a client: split by patient. Dice is that of whole
# volumes, of which only the slices with prostate are read.
_base_ = "../_base_/medical.py"

__data = dict(type="ProstateDataset", data_root="data/prostate")
__resize = dict(type="Resize", height=384, width=384)
__size = [dict(type="ResizeInput", size=(384, 384))]
__metrics = [
    dict(type="ForegroundDice", classes=dict(prostate=[1]), by="case"),
    dict(type="IoUMetric"),
]

model = dict(num_classes=2)
train_dataloader = dict(
    dataset=dict(pipeline=[__resize, dict(type="HorizontalFlip", p=0.5)], **__data),
)
val_dataloader = dict(
    seen=dict(
        batch_size=8,
        num_workers=2,
        dataset=dict(split="splits/test", test_mode=True, pipeline=__size, **__data),
    ),
)
test_dataloader = val_dataloader
val_evaluator = __metrics
test_evaluator = val_evaluator
client_sampler = dict(clients_per_round=6)
