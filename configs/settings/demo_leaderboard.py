# The demo's streets in few rounds: three methods with two seeds each in minutes on two CPU cores.
_base_ = "demo_weather.py"

train_cfg = dict(max_rounds=24, val_interval=4, val_last_rounds=8, val_last_interval=4)
