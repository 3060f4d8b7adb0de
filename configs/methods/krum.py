# Blanchard et al., NeurIPS 2017: the update nearest to its neighbours, a fifth may be bad.
slot = "robust"
needs = "bounded_updates"

robust = dict(type="Krum", share=0.2)
