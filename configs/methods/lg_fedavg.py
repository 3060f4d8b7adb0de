# LG-FedAvg, Liang et al. 2020: each client keeps its representation, the last layers are shared.
slot = "personal"

append = {"personal": ["@body"]}
val_cfg = dict(views=["by_domain", "personal"])
