# The rendered streets of demo_weather with two clients a class, which know that class only.
_base_ = "demo_weather.py"

train_dataloader = dict(
    partition=dict(_delete_=True, type="ClassHeterogeneous", clients_per_class=2)
)
