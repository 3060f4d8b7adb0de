# SCAFFOLD in the setting of demo_leaderboard_fedavg.py: it sends twice as much a round.
_base_ = "demo_leaderboard_fedavg.py"

algorithm = dict(_delete_=True, type="SCAFFOLD", eta_g=1.0)
