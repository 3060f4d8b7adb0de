# FedASAM + SWA + SiloBN on rendered streets: the published rainy experiment in minutes.
_base_ = "settings/demo_streets.py"
methods = ["silobn", "fedasam", "swa"]
