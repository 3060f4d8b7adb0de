# Momentum is counted, as in scaffold.py: the momentum of the rounds is a mean gradient, too.
_base_ = "../fedcm.py"

algorithm = dict(count_momentum=True)
