# One class a client, the extreme of the course report's alphas. 5 clients could hold only 5 of the
# digits: there are 10 clients, each with all images of a digit, and all take part in each round.
_base_ = "../_base_/mnist.py"

train_dataloader = dict(
    partition=dict(_delete_=True, type="DirichletPartition", num_clients=10, alpha=0)
)
client_sampler = dict(clients_per_round=10)
