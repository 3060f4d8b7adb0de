"""Evaluates an average of models under a cyclic local learning rate.

Paper: Izmailov et al., UAI 2018.

Not published here: the cycle of IDDA and Cityscapes, ending at a hundredth of 0.01, untuned.
"""

slot = "average"

averaging = dict(type="SWA", start=0.75, cycle=5, lr2=1e-4)

values = {
    # ECCV 2022, table of SWA: from 75 % of the rounds on
    "cifar10": dict(averaging=dict(cycle=10)),
    "cifar100": dict(averaging=dict(cycle=20)),
    "landmarks": dict(averaging=dict(lr2=1e-3)),
    "cityscapes": dict(averaging=dict(lr2=5e-4)),
    "idda": dict(averaging=dict(lr2=1e-3)),
    # The table says a start in round 15,000, of 10,000, and a cycle of 5; the text "same as
    # CIFAR-100", where the start is 75 % of the rounds and the cycle 20. Here 75 %, and the cycle
    # of the table.
    "cifar100_pam": dict(averaging=dict(cycle=5)),
    # WIMA: down to a hundredth of the clients' learning rate, in cycles of 10 or 20 rounds
    "cifar10_*_resnet20": dict(averaging=dict(cycle=10, lr2=1e-3)),
    "cifar100_*_resnet20": dict(averaging=dict(cycle=20, lr2=1e-3)),
    "cifar100_pam_resnet20": dict(averaging=dict(cycle=20, lr2=5e-4)),
    # not published: Cityscapes' rate, untuned; for tens of rounds
    "feddrive": dict(averaging=dict(lr2=5e-4)),
    "classes": dict(averaging=dict(lr2=1e-4)),
    "demo_weather": dict(averaging=dict(start=0.5, cycle=4, lr2=0.01)),
}
