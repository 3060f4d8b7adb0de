"""Updates in one bit per entry, with error feedback.

Paper: Karimireddy et al., ICML 2019.

EF-SIGNSGD: a bit an entry with error feedback.
"""

slot = "compression"

compression = dict(type="SignSGD")
