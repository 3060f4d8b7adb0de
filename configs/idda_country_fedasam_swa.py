_base_ = "settings/idda_country_paper.py"
methods = ["fedasam", "swa"]
