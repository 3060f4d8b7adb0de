# WIMA's: down to a hundredth of the clients' learning rate; its cycles are 10 and 20.
averaging = dict(cycle=20, lr2=5e-4)
