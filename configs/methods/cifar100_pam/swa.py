# The table says a start in round 15,000, of 10,000, and a cycle of 5; the text "same as CIFAR-100",
# where the start is 75 % of the rounds and the cycle 20. Here 75 %, and the cycle of the table.
slot = "average"

averaging = dict(type="SWA", start=0.75, cycle=5, lr2=1e-4)
