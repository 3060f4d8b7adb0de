# SCAFFOLD in the setting of demo_leaderboard_fedavg.py: it sends twice as much a round. Momentum is
# counted as in _base_/algorithms/scaffold_momentum.py.
_base_ = "demo_leaderboard_fedavg.py"

algorithm = dict(_delete_=True, type="SCAFFOLD", eta_g=1.0, count_momentum=True)
