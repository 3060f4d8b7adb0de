# Momentum is counted, as in scaffold.py; SAM's own default radius, untuned.
_base_ = "../fedgamma.py"

algorithm = dict(count_momentum=True)
