# What demo.py loses in rain without federation.
setting = "demo_streets_centralized"
methods = []
