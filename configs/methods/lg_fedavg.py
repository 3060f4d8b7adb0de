"""The body stays with each client, the head is shared.

Paper: Liang et al., 2020.

Each client keeps its representation, the last layers are shared.
"""

slot = "personal"

append = {"personal": ["@body"]}
val_cfg = dict(views=["by_domain", "personal"])
