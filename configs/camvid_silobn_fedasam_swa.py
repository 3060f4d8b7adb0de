_base_ = "settings/camvid.py"
methods = ["silobn", "fedasam", "swa"]
