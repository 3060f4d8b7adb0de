# The median of every entry, Yin et al., ICML 2018; clients count alike.
slot = "robust"

robust = dict(type="CoordinateMedian")
