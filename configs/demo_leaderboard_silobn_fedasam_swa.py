# FedASAM + SWA + SiloBN in the setting of demo_leaderboard_fedavg.py: flat minima, averaged, and
# BatchNorm statistics that stay with the clients.
_base_ = ["demo_leaderboard_fedavg.py", "_base_/batchnorm/silobn.py"]

optim_wrapper = dict(type="ASAMOptimWrapper", rho=0.1, eta=0.2)
averaging = dict(type="SWA", start=0.5, cycle=4, lr2=0.01)
