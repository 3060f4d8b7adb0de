_base_ = "settings/idda_rainy_batch8.py"
methods = ["silobn"]
