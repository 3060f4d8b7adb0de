# A fifth of the clients train with two classes exchanged: road and sidewalk, or the first two.
slot = "attack"

attack = dict(type="LabelSwap", share=0.2)
