setting = "camvid"
methods = ["silobn", "fedasam", "swa"]
