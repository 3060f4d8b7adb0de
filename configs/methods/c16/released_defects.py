# FedAlign's released code trains every method of its paper so: a thread makes its optimizer once,
# whose momentum then goes on from round to round and from client to client, and a client's last,
# smaller batch is dropped. (A client weighs there as many images as it trains on, here all of its
# own.)
slot = "defects"
append = {"custom_hooks": [dict(type="KeptMomentum")]}

train_dataloader = dict(drop_last=True)
