# The median of every entry, Yin et al., ICML 2018; clients count alike.
slot = "robust"
needs = "bounded_updates"

robust = dict(type="CoordinateMedian")
