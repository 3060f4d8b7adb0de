_base_ = "settings/demo_leaderboard.py"
methods = ["fedavg"]
