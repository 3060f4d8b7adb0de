optim_wrapper = dict(eta=0)  # published with mixup
