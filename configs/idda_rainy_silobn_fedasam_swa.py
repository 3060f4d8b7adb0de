_base_ = "settings/idda_rainy_paper.py"
methods = ["silobn", "fedasam", "swa"]
