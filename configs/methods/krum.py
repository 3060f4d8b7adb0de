# Blanchard et al., NeurIPS 2017: the update nearest to its neighbours, a fifth may be bad.
slot = "robust"

robust = dict(type="Krum", share=0.2)
