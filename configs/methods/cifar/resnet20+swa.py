# WIMA's: cycles of 10 or 20 rounds, down to a hundredth of the clients' learning rate.
averaging = dict(lr2=1e-3)
