_base_ = "settings/idda_rainy.py"
methods = ["silobn"]
