"""Evaluates an average of models under a cyclic local learning rate.

Paper: Izmailov et al., UAI 2018.

Not published here: the cycle of IDDA and Cityscapes, ending at a hundredth of 0.01, untuned.
"""

slot = "average"

averaging = dict(type="SWA", start=0.75, cycle=5, lr2=1e-4)
