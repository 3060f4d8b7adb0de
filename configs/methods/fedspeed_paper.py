# The server's rule as printed: the corrections of the participants instead of all clients'.
_base_ = "fedspeed.py"

algorithm = dict(all_corrections=False)
