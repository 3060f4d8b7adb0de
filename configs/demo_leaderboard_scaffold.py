_base_ = "settings/demo_leaderboard.py"
methods = ["scaffold"]
