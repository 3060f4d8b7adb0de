# Local are the layers with "bn" in their name: 28 of 58. The others are averaged as in FedAvg.
batchnorm = dict(layers=r"detail_branch|stage1\.|conv1\.|CEBlock|_head")
