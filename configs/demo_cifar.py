# demo_images.py on photographs, with smaller steps of the server.
setting = "demo_photos"
methods = ["fedavgm", "swa"]

algorithm = dict(server_optim=dict(momentum=0.5))
averaging = dict(cycle=5, lr2=0.01)
