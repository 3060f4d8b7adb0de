"""FedSMOO with FedGloSS's schedule of the radius.

Paper: Caldarola et al., CVPR 2025.

FedSMOO with FedGloSS's schedule of the radius ("+wp"), which its paper tried. rho_0 is published;
the rest is not: rho and beta as in fedsmoo.py, T_s as in fedgloss_sam.py.
"""

_base_ = "../fedsmoo.py"

algorithm = dict(rho0=0.001, rho_rounds=2000)
