"""The head stays with each client.

Paper: Arivazhagan et al., 2019.

The layers that give the logits stay with each client.
"""

slot = "personal"

append = {"personal": ["@head"]}
val_cfg = dict(views=["by_domain", "personal"])
