"""Attack: a fifth of the clients send the negative of their update.

Paper: Li et al., AAAI 2019.
"""

slot = "attack"

attack = dict(type="SignFlip", share=0.2)
