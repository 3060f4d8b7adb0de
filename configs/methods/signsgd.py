# A bit an entry with error feedback, Karimireddy et al., ICML 2019 (EF-SIGNSGD).
slot = "compression"

compression = dict(type="SignSGD")
