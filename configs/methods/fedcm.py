"""Local steps mix in the last round's mean direction.

Paper: Xu et al., 2021.

WIMA's grid is 0.05, 0.1 and 0.5, its choice is not given: 0.1, untuned.
"""

slot = "algorithm"

algorithm = dict(_delete_=True, type="FedCM", alpha=0.1)
