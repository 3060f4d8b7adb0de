# ECCV 2022, table of SWA: from 75 % of the rounds on.
slot = "average"

averaging = dict(type="SWA", start=0.75, cycle=5, lr2=1e-3)
