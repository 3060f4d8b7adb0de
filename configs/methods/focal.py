# Lin et al., ICCV 2017, of the softmax; gamma is theirs.
slot = "loss"
task = "segmentation"

model = dict(loss=dict(_delete_=True, type="Focal", gamma=2.0))
