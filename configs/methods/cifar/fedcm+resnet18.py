# This network is trained with momentum: it is counted, or the mean gradient is no mean.
algorithm = dict(count_momentum=True)
