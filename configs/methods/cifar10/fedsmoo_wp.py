# FedSMOO with FedGloSS's schedule of the radius ("+wp"), which its paper tried: rho_0 is published,
# T_s is lost in the table. 2,000 rounds as in fedgloss_sam.py.
_base_ = "../fedsmoo.py"

algorithm = dict(rho0=0.001, rho_rounds=2000)
