# No paper has SCAFFOLD here, and its own has no local momentum: with it, (w - w_k)/(K_k eta) is no
# mean gradient and the control variates grow without bound. So momentum is counted.
_base_ = "../scaffold.py"

algorithm = dict(count_momentum=True)
