# Polyps in the colonoscopy images of four sets, each a client: four fifths of each set, tested on
# the rest.
_base_ = "../_base_/medical.py"

__data = dict(type="PolypsDataset", data_root="data/polyps")
__resize = dict(type="Resize", height=352, width=352)
__size = [dict(type="ResizeInput", size=(352, 352))]
__metrics = [
    dict(type="ForegroundDice", classes=dict(polyp=[1])),
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
client_sampler = dict(clients_per_round=4)
