# FlexLoRA, Bai et al., NeurIPS 2024: the mean of the products B A, cut to the rank by its singular
# values.
slot = ("adapter", "algorithm")

algorithm = dict(_delete_=True, type="FlexLoRA")
model = dict(lora=dict(r=8, alpha=16))
