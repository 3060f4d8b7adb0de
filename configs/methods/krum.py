"""The server takes the update that is closest to the others.

Paper: Blanchard et al., NeurIPS 2017.

The update nearest to its neighbours; a fifth may be bad.
"""

slot = "robust"
needs = "bounded_updates"

robust = dict(type="Krum", share=0.2)
