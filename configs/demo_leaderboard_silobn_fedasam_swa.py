_base_ = "settings/demo_leaderboard.py"
methods = ["silobn", "fedasam", "swa"]
