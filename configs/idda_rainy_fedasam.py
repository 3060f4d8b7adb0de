_base_ = "settings/idda_rainy_paper.py"
methods = ["fedasam"]
