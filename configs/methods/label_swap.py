"""Attack: a fifth of the clients train with two classes exchanged.

Paper: Tolpegin et al., ESORICS 2020.

Road and sidewalk, or the first two classes.
"""

slot = "attack"

attack = dict(type="LabelSwap", share=0.2)
