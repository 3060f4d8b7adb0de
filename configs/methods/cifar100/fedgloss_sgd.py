# The choice within the paper's grid is lost in its table: these are the values of the released
# commands, which are in that grid. rho grows from 0.001 over the first T_s rounds.
slot = ["algorithm", "local_optimizer"]

algorithm = dict(
    _delete_=True, type="FedGloSS", rho_server=0.01, beta=100, rho0=0.001, rho_rounds=15_000
)
