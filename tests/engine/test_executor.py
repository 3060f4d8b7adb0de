"""Updates are summed by blocks of participants."""

import pytest
import torch

from fedseg.algorithms import FedAvg
from fedseg.core.messages import ClientResult, Message, Task, Update
from fedseg.engine.executor import MAX_BLOCKS, block_size, train_block


class Trainer:
    """Sends thirds of the client's number, or what is not finite."""

    algorithm = FedAvg()
    payloads = {}

    def __init__(self, bad=(), needs_every_update=False):
        self.bad, self.scratch = bad, torch.empty(3)
        self.checked_exchanges = set()
        self.needs_every_update = needs_every_update

    def train(self, task, message):
        self.scratch.fill_(float("nan") if task.client in self.bad else task.client / 3)
        update, counters = Update({"delta": self.scratch}), torch.tensor([task.client])
        return ClientResult(task, update, torch.zeros(1), counters, {}, 0.5)


MESSAGE = Message(torch.zeros(3), torch.zeros(1), torch.zeros(1, dtype=torch.int64))


def tasks(count):
    return [Task(1, 0, i, str(i), 10 + i, 1, {}) for i in range(count)]


def test_block_sizes_depend_on_the_number_of_participants():
    trainer = Trainer()
    numbers = (1, 10, 128, 129, 256, 257, 10_000)
    assert [block_size(n, trainer) for n in numbers] == [1, 1, 1, 2, 2, 3, 79]
    assert all(-(-n // block_size(n, trainer)) <= MAX_BLOCKS for n in range(1, 5000))
    assert block_size(10_000, Trainer(needs_every_update=True)) == 1


@pytest.mark.parametrize("bad", [(), (2,), (4,), (0, 1, 2, 3, 4)])
def test_a_block_gives_the_sums_of_what_counts_with_its_last_task(bad):
    total, single = FedAvg().new_aggregate(), FedAvg().new_aggregate()
    outcomes = list(train_block(Trainer(bad), tasks(5), MESSAGE))
    assert all(outcome.result is None for outcome in outcomes)
    assert all(outcome.block is None for outcome in outcomes[:-1])
    if len(bad) == 5:
        assert outcomes[-1].block is None
        return
    total.merge(outcomes[-1].block)
    for task in tasks(5):
        (outcome,) = train_block(Trainer(bad), [task], MESSAGE)
        assert outcome.block is None
        assert (outcome.result is None) == (task.client in bad)
        assert (outcome.reason is None) == (task.client not in bad)
        if outcome.result is not None:
            single.add(outcome.result)
    assert total.num_clients == single.num_clients == 5 - len(bad)
    assert total.weights == single.weights
    torch.testing.assert_close(total.mean(), single.mean(), rtol=1e-15, atol=0)
    assert torch.equal(total.counters(), single.counters())
