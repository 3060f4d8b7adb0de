"""Updates in 8 bits per entry, rounded at random.

Paper: Alistarh et al., NeurIPS 2017.

Stochastic rounding, one scale for each tensor.
"""

slot = "compression"

compression = dict(type="Int8")
