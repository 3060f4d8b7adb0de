_base_ = "settings/idda_country.py"
methods = ["silobn", "lab"]
