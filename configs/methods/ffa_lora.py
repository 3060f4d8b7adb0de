# FFA-LoRA, Sun et al., ICLR 2024: A stays at its random start, B is averaged: half the traffic.
slot = "adapter"

model = dict(lora=dict(r=8, alpha=16, fixed_A=True))
