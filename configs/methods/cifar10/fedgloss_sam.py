# As on the server: the values of the released commands, which are in the paper's grid; rho grows
# from 0.001 over T_s rounds.
_base_ = "fedgloss_sgd.py"

optim_wrapper = dict(type="SAMOptimWrapper", rho=0.15, rho0=0.001, rho_rounds=2000)
