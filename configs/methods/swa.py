# Not published here: the cycle of IDDA and Cityscapes, ending at a hundredth of 0.01, untuned.
slot = "average"

averaging = dict(type="SWA", start=0.75, cycle=5, lr2=1e-4)
