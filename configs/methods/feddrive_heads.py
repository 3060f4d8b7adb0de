"""BiSeNetV2 with FedDrive's heads.

Paper: Fantauzzo et al., IROS 2022.

BiSeNetV2 as in FedDrive, where a setting has MMSegmentation's: heads that end in PixelShuffle.
"""

slot = "network"
task = "segmentation"
needs = "bisenetv2"

model = dict(type="FedDriveBiSeNetV2Segmentor")
