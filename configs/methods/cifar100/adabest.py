# The ECCV 2022 paper's choice on CIFAR-100 from 0.01 and 0.02, and from 0.8 and 0.9.
slot = "algorithm"

algorithm = dict(_delete_=True, type="AdaBest", mu=0.02, beta=0.8)
