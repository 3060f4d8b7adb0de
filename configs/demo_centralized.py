# What demo.py loses in rain without federation.
_base_ = "settings/demo_streets_centralized.py"
methods = []
