"""Mean of every entry without the extremes.

Paper: Yin et al., ICML 2018.

A fifth of the participants is left out at each end of every entry.
"""

slot = "robust"
needs = "bounded_updates"

robust = dict(type="TrimmedMean", share=0.2)
