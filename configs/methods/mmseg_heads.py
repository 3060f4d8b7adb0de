"""BiSeNetV2 with MMSegmentation's heads.

Paper: Yu et al., IJCV 2021.

BiSeNetV2 with MMSegmentation's heads: two convolutions in the auxiliary ones, logits at 1/4 to 1/32
of the image's size, resized bilinearly. 14.8 million parameters, twice FedDrive's.
"""

slot = "network"
task = "segmentation"
needs = "bisenetv2"

model = dict(type="BiSeNetV2Segmentor")
