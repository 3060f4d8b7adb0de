# Yin et al., ICML 2018: a fifth of the participants is left out at each end of every entry.
slot = "robust"

robust = dict(type="TrimmedMean", share=0.2)
