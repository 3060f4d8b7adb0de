"""The server takes the median of every entry.

Paper: Yin et al., ICML 2018.

Clients count alike.
"""

slot = "robust"
needs = "bounded_updates"

robust = dict(type="CoordinateMedian")
