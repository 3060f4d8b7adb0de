# The images of camvid_small with two clients a class, which know that class only.
_base_ = "camvid_small.py"

setting = "camvid_classes_small"
train_dataloader = dict(
    partition=dict(_delete_=True, type="ClassHeterogeneous", clients_per_class=2)
)
