_base_ = "settings/landmarks.py"
methods = ["fedavg"]
