"""Clients train the body under a fixed random head, then fine-tune all of it.

Paper: Oh et al., ICLR 2022.

The head stays as it was drawn, clients train and share the body, and each fine-tunes all of it at
the end (val_cfg.fine_tune_steps).
"""

slot = ("algorithm", "personal")

algorithm = dict(_delete_=True, type="FedBABU")
append = {"personal": ["@head"]}
val_cfg = dict(views=["by_domain", "fine_tuned"])
