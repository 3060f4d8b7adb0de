# mu is the ECCV 2022 paper's choice on CIFAR-10, from 0.01 and 0.02; of beta 0.8 and 0.9 its choice
# there, 0.9, stays at chance: docs/results.md. adabest_paper.py has it.
slot = "algorithm"

algorithm = dict(_delete_=True, type="AdaBest", mu=0.02, beta=0.8)
