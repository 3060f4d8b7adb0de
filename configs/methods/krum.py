# Blanchard et al., NeurIPS 2017: the update nearest to its neighbours, a fifth may be bad.
slot = "robust"
refuses = {
    "algorithm.type": {"no rule bounds what its clients send": ["FedCM", "FedDGGA", "FlexLoRA"]},
    "local_loss.type": {"no rule bounds what its clients send": "FedProtoPixels"},
}

robust = dict(type="Krum", share=0.2)
