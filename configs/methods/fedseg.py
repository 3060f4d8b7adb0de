"""For clients that know few classes: erased pixels may be of any other class.

Paper: Miao et al., CVPR 2023.

The weight of the pseudo-labels is 0.1 on Pascal VOC in the paper.
"""

slot = "regularizer"
task = "segmentation"

local_loss = dict(_delete_=True, type="FedSeg")
model = dict(projection=(128, 256))

values = {
    # the paper's weight of the pseudo-labels on Pascal VOC
    "voc_classes": dict(local_loss=dict(pseudo=0.1)),
}
