setting = "idda_rainy_paper"
methods = ["fedasam", "swa"]
