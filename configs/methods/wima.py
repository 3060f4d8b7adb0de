"""Evaluates the mean of the last 100 global models.

Paper: Caldarola et al., ICCV Workshops 2023.

WIMA's window for CIFAR-10 and CIFAR-100, published with ResNet-20; untuned elsewhere.
"""

slot = "average"

averaging = dict(type="WIMA", window=100)

values = {
    # WIMA has 3,000 rounds and batches of 50
    "landmarks": dict(
        averaging=dict(window=370),
        train_dataloader=dict(batch_size=50),
        train_cfg=dict(max_rounds=3000),
    ),
    "landmarks_centralized": {},  # a window of epochs is not published
}
