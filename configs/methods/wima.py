"""Evaluates the mean of the last 100 global models.

Paper: Caldarola et al., ICCV Workshops 2023.

WIMA's window for CIFAR-10 and CIFAR-100, published with ResNet-20; untuned elsewhere.
"""

slot = "average"

averaging = dict(type="WIMA", window=100)

values = {
    # WIMA
    "landmarks_wima": dict(averaging=dict(window=370)),
}
