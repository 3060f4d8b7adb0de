"""BatchNorm statistics, scale and shift stay with the clients.

Paper: Li et al., ICLR 2021.

No paper here has published values of it; it has none to choose.
"""

slot = "batchnorm"
needs = "batchnorm"

append = {"personal": ["@batchnorm"]}
