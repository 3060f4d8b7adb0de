"""BatchNorm statistics stay with the clients.

Paper: Andreux et al., DART 2020.

FedDrive's, on every BatchNorm layer.
"""

slot = "batchnorm"
needs = "batchnorm"

append = {"personal": ["@batchnorm.statistics"]}
