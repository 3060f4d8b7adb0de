# 8 bits an entry by stochastic rounding, one scale for each tensor, Alistarh et al., NeurIPS 2017.
slot = "compression"

compression = dict(type="Int8")
