# For tens of rounds.
slot = "average"

averaging = dict(type="SWA", start=0.5, cycle=4, lr2=0.01)
