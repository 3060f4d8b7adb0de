"""LoRA with averaged A and with B staying on the client.

Paper: Guo et al., ICLR 2025.

The paper's figures are those of the clients' own models, the personal view.
"""

slot = ("adapter", "personal")

model = dict(lora=dict(r=8, alpha=16))
append = {"personal": ["*.lora_B"]}
val_cfg = dict(views=["by_domain", "personal"])
