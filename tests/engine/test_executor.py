"""Updates are summed by blocks of participants."""

import pytest
import torch

from fedseg.algorithms import FedAvg
from fedseg.core.messages import ClientResult, Message, Task, Update
from fedseg.core.server import Aggregate
from fedseg.engine.executor import MAX_BLOCKS, block_size, train_block


class Robust(FedAvg):
    class aggregate(Aggregate):
        single_updates = True


class Trainer:
    """Sends the client's number, thirds of it and what a hook of a real trainer might break."""

    algorithm = FedAvg()

    def __init__(self, bad=()):
        self.bad, self.scratch = bad, torch.empty(3)

    def train(self, task, message):
        self.scratch.fill_(float("nan") if task.client in self.bad else task.client / 3)
        counter = {"n": torch.tensor(task.client)}
        return ClientResult(task, Update({"delta": self.scratch}), torch.zeros(1), counter, {}, 0.5)


MESSAGE = Message(torch.zeros(3), torch.zeros(1))


def tasks(count):
    return [Task(1, 0, i, str(i), 10 + i, 1, {}) for i in range(count)]


def test_block_sizes_depend_on_the_number_of_participants():
    assert [block_size(n, FedAvg()) for n in (1, 10, 128, 129, 256, 257, 10_000)] == [
        *(1, 1, 1, 2, 2, 3, 79)
    ]
    assert all(-(-n // block_size(n, FedAvg())) <= MAX_BLOCKS for n in range(1, 5000))
    assert block_size(10_000, Robust()) == 1


@pytest.mark.parametrize("bad", [(), (2,), (4,), (0, 1, 2, 3, 4)])
def test_a_block_gives_the_sums_of_what_counts_with_its_last_task(bad):
    total, single = Aggregate(), Aggregate()
    outcomes = list(train_block(Trainer(bad), tasks(5), MESSAGE))
    assert [o.sums for o in outcomes[:-1]] == [[]] * 4
    assert len(outcomes[-1].sums) == (len(bad) < 5)
    if len(bad) == 5:
        return
    total.add(*outcomes[-1].sums)
    for task in tasks(5):
        for outcome in train_block(Trainer(bad), [task], MESSAGE):
            assert (outcome.sums == []) == (task.client in bad)
            assert (outcome.reason is None) == (task.client not in bad)
            single.add(*outcome.sums)
    assert total.num_clients == single.num_clients == 5 - len(bad)
    assert total.weights == single.weights
    torch.testing.assert_close(total.mean(), single.mean(), rtol=1e-15, atol=0)
    assert total.counters() == single.counters()
