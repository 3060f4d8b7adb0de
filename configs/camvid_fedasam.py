_base_ = "settings/camvid.py"
methods = ["fedasam"]
