"""fedseg: a benchmark suite for federated learning in computer vision."""

import os

# albumentations would look online for a newer version of itself when it is imported
os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")
# vectors of a whole model in pages of 2 MiB: to get new ones costs a fifth of the time
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

__version__ = "0.1.0"
