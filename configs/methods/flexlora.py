"""LoRA with averaged products B A, truncated to the rank.

Paper: Bai et al., NeurIPS 2024.

The mean of the products B A is cut to the rank by its singular values.
"""

slot = ("adapter", "algorithm")

algorithm = dict(_delete_=True, type="FlexLoRA")
model = dict(lora=dict(r=8, alpha=16))
