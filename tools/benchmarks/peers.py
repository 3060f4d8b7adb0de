"""Rounds of clients that train nothing, in Flower's and pfl-research's simulations.

``PYTHON peers.py flower PARAMETERS CLIENTS WORKERS ROUNDS`` prints the seconds of rounds after the
first as JSON. Nothing of fedseg is imported: the others need other versions of Ray, and so an
interpreter of their own.
"""

import itertools
import json
import sys
import time


def flower(parameters: int, clients: int, workers: int, rounds: int) -> list[float]:
    """Each client gives back what it received; FedAvg averages; as many actors as workers."""
    import numpy
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    client, server, begins = ClientApp(), ServerApp(), []

    @client.train()
    def train(message: Message, context: Context) -> Message:
        content = {"arrays": message.content["arrays"], "n": MetricRecord({"num-examples": 1})}
        return Message(content=RecordDict(content), reply_to=message)

    class Timed(FedAvg):
        def configure_train(self, *arguments, **options):
            begins.append(time.perf_counter())
            return super().configure_train(*arguments, **options)

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = Timed(fraction_evaluate=0.0, min_available_nodes=clients)
        start = ArrayRecord([numpy.zeros(parameters, numpy.float32)])
        strategy.start(grid=grid, initial_arrays=start, num_rounds=rounds + 2)

    resources = {"client_resources": {"num_cpus": 1.0}, "init_args": {"num_cpus": workers}}
    run_simulation(server, client, num_supernodes=clients, backend_config=resources)
    return [after - begin for begin, after in itertools.pairwise(begins[1:])]


def pfl(parameters: int, clients: int, _workers: int, rounds: int) -> list[float]:
    """FederatedAveraging of a PyTorch model that is not trained, in one process."""
    import numpy
    import torch
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    class Idle(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = torch.nn.Parameter(torch.zeros(parameters))

        def loss(self, inputs, eval=False):
            return self.weights[: len(inputs)].sum()

        def metrics(self, inputs, eval=False):
            return {}

    class Untrained(PyTorchModel):
        def do_multiple_epochs_of(self, *arguments, **options):
            return None

    class Timed(TrainingProcessCallback):
        def after_central_iteration(self, *arguments, **options):
            ends.append(time.perf_counter())
            return False, Metrics()

    module, ends = Idle(), []
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    model = Untrained(module, torch.optim.SGD, optimizer)
    sampler = get_user_sampler("minimize_reuse", list(range(clients)))
    data = FederatedDataset(lambda user: Dataset([numpy.zeros((1, 1))], user_id=user), sampler)
    algorithm = NNAlgorithmParams(
        central_num_iterations=rounds + 1,
        evaluation_frequency=rounds + 2,
        train_cohort_size=clients,
        val_cohort_size=0,
    )
    training = NNTrainHyperParams(
        local_learning_rate=0.1, local_num_epochs=1, local_batch_size=1, grad_accumulation_steps=1
    )
    backend = SimulatedBackend(data, data)
    FederatedAveraging().run(algorithm, backend, model, training, callbacks=[Timed()])
    return [after - begin for begin, after in itertools.pairwise(ends)]


if __name__ == "__main__":
    peer, *shape = sys.argv[1:]
    print(json.dumps({"flower": flower, "pfl": pfl}[peer](*map(int, shape))))
