"""Low-rank adapters on frozen weights.

Paper: Zhang et al., ICASSP 2024.

As FedIT trains it: A and B are averaged apart. The head is trained as it is, all other weights are
frozen: give them by model.weights or load_from.
"""

slot = "adapter"

model = dict(lora=dict(r=8, alpha=16))
