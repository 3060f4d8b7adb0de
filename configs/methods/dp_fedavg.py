# Client-level differential privacy, McMahan et al., ICLR 2018, of FedAvg and FedProx. With few
# clients, such as a demo's 100, the noise outweighs what is learned: a small epsilon takes many.
slot = "privacy"
refuses = {
    "algorithm.type": {
        "epsilon is that of FedAvg and FedProx": [
            "AdaBest",
            "Ditto",
            "FedACG",
            "FedBABU",
            "FedCM",
            "FedDGGA",
            "FedDyn",
            "FedExLoRA",
            "FedGamma",
            "FedGloSS",
            "FedRep",
            "FedSMOO",
            "FedSpeed",
            "FlexLoRA",
            "MIME",
            "MIMELite",
            "NaiveFedGloSS",
            "SCAFFOLD",
        ]
    },
    "local_loss.type": {"sends more than the update": ["ClassWeights", "SelfTraining"]},
    "robust.type": ["CoordinateMedian", "TrimmedMean", "Krum"],
}

client_sampler = dict(type="PoissonSampler")
train_cfg = dict(max_norm_ratio=None)
privacy = dict(type="DPFedAvg", noise=1.0, clip=0.1)
