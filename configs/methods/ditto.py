"""Each client also trains a personal model, pulled towards the global one.

Paper: Li et al., ICML 2021.

A lambda of the paper's grid, untuned.
"""

slot = "algorithm"

algorithm = dict(_delete_=True, type="Ditto", lam=0.1)
val_cfg = dict(views=["by_domain", "personal"])
