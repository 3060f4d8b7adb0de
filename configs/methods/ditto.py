# Ditto, Li et al., ICML 2021, with a lambda of the paper's grid, untuned.
slot = "algorithm"

algorithm = dict(_delete_=True, type="Ditto", lam=0.1)
val_cfg = dict(views=["by_domain", "personal"])
