# The choice within the paper's grid is lost in its table: these are the values of the released
# commands, which are in that grid. Both radii grow from 0.001 over the first T_s rounds.
slot = ["algorithm", "local_optimizer"]

algorithm = dict(
    _delete_=True, type="FedGloSS", rho_server=0.15, beta=10, rho0=0.001, rho_rounds=2000
)
optim_wrapper = dict(type="SAMOptimWrapper", rho=0.15, rho0=0.001, rho_rounds=2000)
