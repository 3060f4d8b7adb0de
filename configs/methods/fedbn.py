# No paper here has published values of it; it has none to choose.
slot = "batchnorm"
needs = "batchnorm"

append = {"personal": ["@batchnorm"]}
