# This network is trained with momentum: it is counted, for else the control variates grow without
# bound.
algorithm = dict(count_momentum=True)
