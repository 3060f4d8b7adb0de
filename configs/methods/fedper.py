# FedPer, Arivazhagan et al. 2019: the layers that give the logits stay with each client.
slot = "personal"

append = {"personal": ["@head"]}
val_cfg = dict(views=["by_domain", "personal"])
