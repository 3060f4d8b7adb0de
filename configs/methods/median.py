# The median of every entry, Yin et al., ICML 2018; clients count alike.
slot = "robust"
refuses = {
    "algorithm.type": {
        "no rule bounds what its clients send": ["FedCM", "FedDGGA", "FedExLoRA", "FlexLoRA"]
    },
}

robust = dict(type="CoordinateMedian")
