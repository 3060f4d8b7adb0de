# FedSeg, Miao et al., CVPR 2023; the weight of the pseudo-labels is 0.1 on Pascal VOC there.
slot = "regularizer"
task = "segmentation"

local_loss = dict(_delete_=True, type="FedSeg")
model = dict(projection=(128, 256))
