"""LoRA that trains B only, at half the traffic.

Paper: Sun et al., ICLR 2024.

A stays at its random start, B is averaged.
"""

slot = "adapter"

model = dict(lora=dict(r=8, alpha=16, fixed_A=True))
