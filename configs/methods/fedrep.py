"""A personal head, trained before the shared body in each round.

Paper: Collins et al., ICML 2021.

The paper's clients give 10 of 11 epochs to the head; here local epochs are those of the setting,
and half of their steps go to each part.
"""

slot = ("algorithm", "personal")

algorithm = dict(_delete_=True, type="FedRep", personal_share=0.5)
append = {"personal": ["@head"]}
val_cfg = dict(views=["by_domain", "personal"])
