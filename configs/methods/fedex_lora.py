"""LoRA with an exact mean: the residual goes into the frozen weights.

Paper: Singhal et al., ACL 2025.

A and B are averaged, and what their product lacks of the mean product goes into the frozen weights.
"""

slot = ("adapter", "algorithm")

algorithm = dict(_delete_=True, type="FedExLoRA")
model = dict(lora=dict(r=8, alpha=16))
