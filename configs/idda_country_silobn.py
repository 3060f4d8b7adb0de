_base_ = "settings/idda_country_batch8.py"
methods = ["silobn"]
