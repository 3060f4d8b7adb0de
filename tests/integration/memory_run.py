"""Peak memory of a few rounds with many or few clients per round, for ``test_memory.py``.

python memory_run.py FOLDER CLIENTS_PER_ROUND: prints the peak resident memory in KiB.
"""

import resource
import sys
from pathlib import Path

import torch
import toyseg
from torch import nn

from fedseg.registry import MODELS

CLIENTS = 50


@MODELS.register_module()
class WideNet(toyseg.ToySegNet):
    """Five million parameters more, so that one stray copy of the model is seen."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(6, 700)
        self.wider = nn.Linear(700, 7000)

    def forward(self, inputs, data_samples=None, mode="tensor"):
        result = super().forward(inputs, data_samples, mode)
        if mode == "loss":
            result["loss"] = (
                result["loss"] + self.wider(self.wide(inputs.mean((2, 3)) @ ONES)).mean()
            )
        return result


ONES = torch.ones(3, 6)


def main(folder: str, clients_per_round: int) -> None:
    torch.set_num_threads(1)
    users = {f"u{i}": 2 for i in range(CLIENTS)}
    toyseg.run(
        Path(folder),
        model={"type": "WideNet"},
        train_dataloader={"dataset": {"users": users}},
        val_dataloader=None,
        val_evaluator=None,
        client_sampler={"clients_per_round": clients_per_round},
        algorithm={"_delete_": True, "type": "FedDyn", "beta": 10.0},
        train_cfg={"max_rounds": 2, "local_epochs": 1},
    )
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
