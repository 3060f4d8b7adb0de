# FedSA-LoRA, Guo et al., ICLR 2025: A is averaged, B stays with the client.
slot = ("adapter", "personal")

model = dict(lora=dict(r=8, alpha=16))
personal = "*.lora_B"
