# Yin et al., ICML 2018: a fifth of the participants is left out at each end of every entry.
slot = "robust"
refuses = {
    "algorithm.type": {
        "no rule bounds what its clients send": ["FedCM", "FedDGGA", "FedExLoRA", "FlexLoRA"]
    },
}

robust = dict(type="TrimmedMean", share=0.2)
