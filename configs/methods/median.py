# The median of every entry, Yin et al., ICML 2018; clients count alike.
slot = "robust"
refuses = {
    "algorithm.type": {"no rule bounds what its clients send": ["FedCM", "FedDGGA", "FlexLoRA"]},
    "local_loss.type": {"no rule bounds what its clients send": "FedProtoPixels"},
}

robust = dict(type="CoordinateMedian")
