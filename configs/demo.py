# FedASAM + SWA + SiloBN on rendered streets: the published rainy experiment in minutes.
setting = "demo_streets"
methods = ["silobn", "fedasam", "swa"]
