# FedAlign's choice for ResNet-56.
slot = "algorithm"

algorithm = dict(_delete_=True, type="FedProx", mu=1e-4)
