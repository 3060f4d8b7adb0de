# FedDrive's, on every BatchNorm layer.
slot = "batchnorm"
needs = "batchnorm"

append = {"personal": ["@batchnorm.statistics"]}
