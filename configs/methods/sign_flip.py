# A fifth of the clients send the negative of their update.
slot = "attack"

attack = dict(type="SignFlip", share=0.2)
