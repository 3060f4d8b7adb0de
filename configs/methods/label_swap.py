# A fifth of the clients train with two classes exchanged: road and sidewalk, or the first two.
slot = "attack"

append = {"custom_hooks": [dict(type="LabelSwap", share=0.2)]}
