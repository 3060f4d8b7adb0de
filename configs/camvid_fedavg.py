setting = "camvid"
methods = ["fedavg"]
