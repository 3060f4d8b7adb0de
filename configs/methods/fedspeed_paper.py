"""FedSpeed by the printed rule: the corrections of the participants only.

Paper: Sun et al., ICLR 2023.

The server's rule as printed: the corrections of the participants instead of all clients'.
"""

_base_ = "fedspeed.py"

algorithm = dict(all_corrections=False)
