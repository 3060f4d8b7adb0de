# Blanchard et al., NeurIPS 2017: the update nearest to its neighbours, a fifth may be bad.
slot = "robust"
refuses = {
    "algorithm.type": {
        "no rule bounds what its clients send": ["FedCM", "FedDGGA", "FedExLoRA", "FlexLoRA"]
    },
}

robust = dict(type="Krum", share=0.2)
