"""Clients that train nothing: what is left of a round is what the engine itself costs."""

import torch
from mmengine.config import Config
from mmengine.model import BaseModel
from torch import Tensor, nn
from torch.utils.data import Dataset

from fedseg.algorithms import FedAvg
from fedseg.registry import ALGORITHMS, DATASETS, MODELS, PARTITIONS


@MODELS.register_module()
class IdleNet(BaseModel):
    """So many parameters, which nothing is computed with."""

    def __init__(self, parameters: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(parameters))

    def forward(self, inputs: Tensor, mode: str = "tensor") -> dict[str, Tensor]:
        return {"loss": self.weights[: inputs.numel()].sum()}


@DATASETS.register_module()
class IdleData(Dataset):
    """One sample for each client."""

    def __init__(self, clients: int) -> None:
        self.clients = clients

    def __len__(self) -> int:
        return self.clients

    def __getitem__(self, index: int) -> Tensor:
        return torch.zeros(1)


@PARTITIONS.register_module()
class IdlePartition:
    """A sample each."""

    def __call__(self, dataset: IdleData) -> dict[str, list[int]]:
        return {str(client): [client] for client in range(len(dataset))}


@ALGORITHMS.register_module()
class Idle(FedAvg):
    """FedAvg without local steps: the message is loaded, the update sent, checked and summed."""

    training = ()


def config(parameters: int, clients: int, work_dir: str) -> Config:
    """Rounds of that."""
    return Config(
        {
            "custom_imports": {"imports": ["benchmarks.idle"], "allow_failed_imports": False},
            "work_dir": work_dir,
            "model": {"type": "IdleNet", "parameters": parameters},
            "train_dataloader": {
                "batch_size": 1,
                "dataset": {"type": "IdleData", "clients": clients},
                "partition": {"type": "IdlePartition"},
            },
            "algorithm": {"type": "Idle"},
            "optim_wrapper": {"optimizer": {"type": "SGD", "lr": 0.1}},
            "train_cfg": {"max_rounds": 1},
            "client_sampler": {"type": "UniformSampler", "clients_per_round": "all"},
        }
    )
