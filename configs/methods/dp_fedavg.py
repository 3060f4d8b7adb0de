"""Client-level differential privacy: clipped updates, noise, an epsilon per round.

Paper: McMahan et al., ICLR 2018.

For FedAvg and FedProx. With few clients, such as a demo's 100, the noise outweighs what is learned:
a small epsilon takes many.
"""

slot = "privacy"
needs = ["fedavg_updates", "plain_loss", "mean_of_updates"]

client_sampler = dict(type="PoissonSampler")
train_cfg = dict(max_norm_ratio=None)
privacy = dict(type="DPFedAvg", noise=1.0, clip=0.1)
