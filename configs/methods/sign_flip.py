# A fifth of the clients send the negative of their update.
slot = "attack"

append = {"custom_hooks": [dict(type="SignFlip", share=0.2)]}
