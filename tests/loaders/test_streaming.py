"""The data stream: which samples with which seeds in which order, whatever the workers."""

import multiprocessing
import os
import random
import signal
from collections import Counter

import numpy as np
import pytest
import torch
import toyseg
from torch.utils.data import Dataset
from torch.utils.data.distributed import DistributedSampler

from fedseg.core.client_data import Job, JobStream
from fedseg.core.messages import Exchange
from fedseg.errors import ConfigError, LoaderKilled, LoadingError
from fedseg.loaders.partitioned import balanced_batches
from fedseg.loaders.streaming import SeededDataset, StreamingData, build_collate
from fedseg.partition import NaturalPartition
from fedseg.registry import FUNCTIONS

SIZES = {"a": 7, "b": 4, "c": 1, "d": 10}


class Numbers(Dataset):
    """Sample i is the number i and the seed that it was asked with."""

    seeded = True

    def __init__(self, total: int = sum(SIZES.values())) -> None:
        self.total = total

    def __len__(self) -> int:
        return self.total

    def __getitem__(self, key):
        index, seed = key
        return torch.tensor(index), torch.tensor(seed)


def clients(dataset):
    ends = np.cumsum(list(SIZES.values()))
    return {c: np.arange(e - n, e) for (c, n), e in zip(SIZES.items(), ends, strict=True)}


def stream(**kwargs) -> StreamingData:
    options = {"dataset": Numbers(), "partition": clients, "batch_size": 3, **kwargs}
    return StreamingData(**options)


def keys(data: StreamingData, *job: int) -> list[list[tuple[int, int]]]:
    return list(data.batch_keys(Job(*job)))


def test_keys_are_a_pure_function_of_seed_and_job():
    data = stream(seed=3, local_epochs=2)
    first = keys(data, 5, 0, 3)
    keys(data, 1, 0, 0)
    assert keys(data, 5, 0, 3) == first == keys(stream(seed=3, local_epochs=2), 5, 0, 3)
    assert keys(data, 5, 1, 3) == first, "a second exchange sees the same batches"
    others = [keys(data, 6, 0, 3), keys(stream(seed=4, local_epochs=2), 5, 0, 3)]
    assert all(other != first for other in others)


def test_every_sample_once_an_epoch_in_a_fresh_order():
    data = stream(local_epochs=3)
    indices = [i for batch in keys(data, 1, 0, 3) for i, _ in batch]
    epochs = [indices[i : i + 10] for i in range(0, 30, 10)]
    assert all(sorted(e) == list(range(12, 22)) for e in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_no_two_draws_share_an_augmentation_seed():
    data = stream(local_epochs=2)
    seeds = Counter(
        seed
        for round_ in range(1, 20)
        for client in range(4)
        for batch in keys(data, round_, 0, client)
        for _, seed in batch
    )
    assert len(seeds) == 19 * 2 * 22 and max(seeds.values()) == 1


def test_shuffles_are_uniform():
    """Each of the 24 orders of four samples, chi-square at 0.1 % with 23 degrees of freedom."""
    data = stream(batch_size="full")
    counts = Counter(tuple(i for i, _ in keys(data, r, 0, 1)[0]) for r in range(1, 2401))
    assert len(counts) == 24
    assert sum((n - 100) ** 2 / 100 for n in counts.values()) < 49.73


def test_unshuffled_keeps_the_partitions_order():
    data = stream(shuffle=False)
    assert [[i for i, _ in b] for b in keys(data, 1, 0, 0)] == [[0, 1, 2], [3, 4, 5], [6]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [[3, 3, 1], [3, 1], [1], [3, 3, 3, 1]]),
        ({"batch_size": "full"}, [[7], [4], [1], [10]]),
        ({"batch_size": 100}, [[7], [4], [1], [10]]),
        ({"local_epochs": 2}, [[3, 3, 1] * 2, [3, 1] * 2, [1, 1], [3, 3, 3, 1] * 2]),
        ({"local_steps": 2}, [[3, 3], [3, 1], [1, 1], [3, 3]]),
        (
            {"local_steps": 5, "local_epochs": 9},
            [[3, 3, 1, 3, 3], [3, 1, 3, 1, 3], [1] * 5, [3, 3, 3, 1, 3]],
        ),
    ],
)
def test_batches_and_steps(options, expected):
    data = stream(**options)
    for client, sizes in enumerate(expected):
        assert [len(batch) for batch in keys(data, 1, 0, client)] == sizes
        assert data.num_steps(client) == len(sizes)


BIG = {"partition": lambda d: {c: i for c, i in clients(d).items() if c != "c"}}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"drop_single": True}, [[3, 3], [3], [3, 3, 3]]),
        ({"drop_single": True, "batch_size": 4}, [[4, 3], [4], [4, 4, 2]]),
        ({"drop_single": True, "batch_size": 3, "local_steps": 3}, [[3] * 3] * 3),
        ({"drop_last": True, "batch_size": 4}, [[4], [4], [4, 4]]),
        ({"drop_last": True, "drop_single": True}, [[3, 3], [3], [3, 3, 3]]),
        ({"drop_single": True, "batch_size": "full"}, [[7], [4], [10]]),
    ],
)
def test_what_is_dropped(options, expected):
    data = stream(**BIG, **options)
    assert [[len(b) for b in keys(data, 1, 0, c)] for c in range(3)] == expected


def test_who_loses_a_sample_is_known():
    assert stream(**BIG, drop_single=True).dropped() == ["a", "b", "d"]
    assert stream(**BIG, drop_single=True, batch_size=4).dropped() == []
    assert stream().dropped() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drop_single": True}, r"client 'c' has 1 sample.*BatchNorm.*merge"),
        ({"drop_single": True, "batch_size": "full"}, r"client 'c' has 1 sample.*BatchNorm"),
        ({**BIG, "drop_single": True, "batch_size": 1}, r"batch_size.*BatchNorm"),
        ({"drop_last": True}, r"client 'c' has 1 sample.*full batch of 3.*drop_last"),
    ],
)
def test_clients_that_have_no_batch(options, message):
    with pytest.raises(ConfigError, match=message):
        stream(**options)


def take(data: StreamingData, jobs: list[Job]) -> list:
    data.start(jobs)
    try:
        return [[tuple(t.tolist() for t in b) for b in data.batches(job)] for job in jobs]
    finally:
        data.close()


JOBS = [Job(r, 0, c) for r in (1, 2) for c in (3, 0, 2)]


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_the_stream_gives_the_keys_whatever_the_workers(workers):
    data = stream(num_workers=workers, seed=1)
    expected = [
        [tuple(map(list, zip(*batch, strict=True))) for batch in data.batch_keys(job)]
        for job in JOBS
    ]
    assert take(data, JOBS) == expected
    assert data.seconds_waiting > 0


def test_another_job_than_planned_is_refused():
    data = stream()
    data.start(JOBS)
    with pytest.raises(RuntimeError, match="stream is at"):
        list(data.batches(JOBS[1]))
    data.close()


def test_a_stream_can_start_again_in_the_middle():
    whole = take(stream(), JOBS)
    assert take(stream(), JOBS[2:]) == whole[2:]
    data = stream()
    take(data, JOBS[:1])
    assert take(data, JOBS) == whole, "a second start of the same object"


def test_job_stream_is_the_order_of_training():
    jobs = JobStream({1: [0, 2], 2: [1]}.__getitem__, 1, 2, [Exchange(), Exchange()])
    expected = [(1, 0, 0), (1, 0, 2), (1, 1, 0), (1, 1, 2), (2, 0, 1), (2, 1, 1)]
    assert [(j.round, j.exchange, j.client) for j in jobs] == expected
    assert list(jobs) == list(jobs), "it can be read twice"


def unseeded_stream(workers: int) -> list:
    data = StreamingData(
        toyseg.UnseededScenes(), NaturalPartition(), 3, num_workers=workers, local_epochs=2
    )
    jobs = [Job(1, 0, 0), Job(1, 0, 1)]
    data.start(jobs)
    batches = [batch for job in jobs for batch in data.batches(job)]
    data.close()
    return batches


def test_unseeded_data_sets_become_reproducible():
    torch.manual_seed(1)
    runs = [unseeded_stream(0)]
    torch.manual_seed(2)
    random.seed(5)
    runs += [unseeded_stream(workers) for workers in (0, 1, 2)]
    for other in runs[1:]:
        for a, b in zip(runs[0], other, strict=True):
            assert torch.equal(a["inputs"], b["inputs"])
            assert torch.equal(a["data_samples"], b["data_samples"])
    first, second = SeededDataset(toyseg.UnseededScenes()), SeededDataset(toyseg.UnseededScenes())
    drawn = {first[(0, seed)]["inputs"].numpy().tobytes() for seed in range(20)}
    assert len(drawn) > 10, "the seed matters"
    assert torch.equal(first[(3, 9)]["inputs"], second[(3, 9)]["inputs"])


def global_states():
    _, keys_, *rest = np.random.get_state()  # noqa: NPY002
    return random.getstate(), keys_.tolist(), rest, torch.get_rng_state().tolist()


class Failing(toyseg.UnseededScenes):
    def __getitem__(self, index):
        super().__getitem__(index)
        raise OSError("broken image")


def test_global_generators_are_put_back():
    before = global_states()
    SeededDataset(toyseg.UnseededScenes())[(0, 5)]
    assert global_states() == before
    with pytest.raises(OSError, match="broken image"):
        SeededDataset(Failing())[(0, 5)]
    assert global_states() == before, "also after an error"
    data = stream()
    take(data, JOBS)
    assert global_states() == before, "the loader draws nothing"


@FUNCTIONS.register_module()
def toy_stack(samples, factor=1):
    """A batching function of a user's own."""
    return torch.stack([index * factor for index, _ in samples])


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(("config", "factor"), [({}, 1), ({"factor": 10}, 10)])
def test_collate_fn(workers, config, factor):
    data = stream(collate_fn={"type": "toy_stack", **config}, shuffle=False, num_workers=workers)
    data.start([Job(1, 0, 0)])
    batches = [b.tolist() for b in data.batches(Job(1, 0, 0))]
    data.close()
    assert batches == [[0, factor, 2 * factor], [3 * factor, 4 * factor, 5 * factor], [6 * factor]]


@FUNCTIONS.register_module()
def toy_draw(samples):
    """A batching function that draws, as mixup does."""
    return samples[0][0], np.random.random(), torch.rand(()).item(), random.random()  # noqa: NPY002


def test_draws_of_a_collate_fn_are_those_of_its_batch():
    found = []
    for workers, jobs in ((0, JOBS), (1, JOBS), (2, JOBS), (1, JOBS[2:]), (0, JOBS[2:])):
        data = stream(collate_fn={"type": "toy_draw"}, num_workers=workers, seed=1)
        before = global_states()
        data.start(jobs)
        found.append([[tuple(b) for b in data.batches(job)] for job in jobs])
        data.close()
        assert global_states() == before
    assert found[0] == found[1] == found[2] and found[3] == found[4] == found[0][2:]
    draws = [batch[1:] for job in found[0] for batch in job]
    assert len(set(draws)) == len(draws)


def test_batches_for_statistics_have_draws_of_their_own():
    batches = [[0, 3], [5]]
    made = [
        list(zip(*(t.tolist() for t in b), strict=True)) for b in stream().sample_batches(batches)
    ]
    seeds = {index: seed for batch in made for index, seed in batch}
    assert [[index for index, _ in batch] for batch in made] == batches
    assert len(set(seeds.values())) == 3
    (again,) = stream(seed=5).sample_batches([[5, 3]])
    assert again[1].tolist() == [seeds[5], seeds[3]], "a sample's, whatever its batch or the run"


def test_collate_fn_by_default_and_as_a_function():
    assert build_collate(None) is torch.utils.data.default_collate
    assert build_collate(toy_stack) is toy_stack


@pytest.mark.parametrize("config", [{"type": "no_such_collate"}, {"factor": 2}, "toy_stack"])
def test_collate_fn_that_there_is_not(config):
    with pytest.raises(ConfigError, match="collate_fn"):
        build_collate(config)


def test_checksum_follows_clients_and_samples():
    base = stream().checksum()
    assert stream(batch_size=5, seed=9, local_epochs=3).checksum() == base
    moved = clients(None)
    moved["a"], moved["b"] = moved["b"], moved["a"]
    assert stream(partition=lambda d: moved).checksum() != base
    assert (
        stream(partition=lambda d: {"z" + c: i for c, i in clients(d).items()}).checksum() != base
    )


class Files(Numbers):
    def __init__(self, root: str) -> None:
        super().__init__()
        self.data_root = root
        self.files = [(f"{root}/images/{i}.png", f"{root}/labels/{i}.png") for i in range(22)]


def test_checksum_does_not_depend_on_where_the_data_lie():
    assert stream(dataset=Files("/a/b")).checksum() == stream(dataset=Files("/c")).checksum()
    assert stream(dataset=Files("/a/b")).checksum() != stream().checksum()


@pytest.mark.parametrize(
    ("count", "size", "expected"),
    [
        (10, 4, [4, 3, 3]),
        (3, 2, [3]),
        (5, 2, [3, 2]),
        (4, 2, [2, 2]),
        (4, 3, [2, 2]),
        (9, 4, [3, 3, 3]),
        (4, 4, [4]),
        (1, 4, [1]),
        (3, 1, [1, 1, 1]),
        (0, 4, []),
    ],
)
def test_balanced_batches(count, size, expected):
    batches = balanced_batches(np.arange(count) + 5, size)
    assert [len(b) for b in batches] == expected
    assert [i for b in batches for i in b] == list(range(5, 5 + count))


def test_orders_of_the_local_epochs_as_torchs_distributed_sampler_draws_them():
    data = stream(
        shuffle="epoch", local_epochs=2, batch_size=4, drop_last=True, partition=clients_of_six
    )
    for client, first in enumerate((0, 6, 12)):
        sampler = DistributedSampler(range(6), num_replicas=1, rank=0)
        expected = []
        for epoch in range(2):
            sampler.set_epoch(epoch)
            expected.append([first + i for i in sampler][:4])  # the smaller last batch is dropped
        for round_ in (1, 9):
            assert [[i for i, _ in batch] for batch in keys(data, round_, 0, client)] == expected


def clients_of_six(dataset):
    return {f"c{n}": np.arange(6 * n, 6 * n + 6) for n in range(3)}


class Growing(Dataset):
    """Images of several sizes."""

    def __len__(self):
        return sum(SIZES.values())

    def __getitem__(self, index):
        return torch.zeros(3, 8, 8 + index // 2), index


@pytest.mark.parametrize("workers", [0, 1])
def test_the_first_batch_of_several_sizes_is_named(workers):
    options = {"dataset": Growing(), "num_workers": workers, "shuffle": False}
    sizes = r"\[\(3, 8, 8\)\] and \[\(3, 8, 9\)\]"
    message = rf"train_dataloader: Growing, sample 0 of client 'a': .*{sizes}.*batch_size=1$"
    with pytest.raises(LoadingError, match=message):
        take(stream(**options), JOBS[1:])
    stream(**options, batch_size=1)
    data = stream(**options, collate_fn={"type": "pseudo_collate"})
    data.start(JOBS)
    assert [len(images) for images, _ in data.batches(JOBS[0])] == [3, 3, 3, 1]
    data.close()


def test_a_process_that_dies_while_it_starts_is_no_hang(monkeypatch):
    """As by a signal to the whole group; torch does not watch the processes yet."""
    start = multiprocessing.Process.start

    def start_and_die(process):
        start(process)
        os.kill(process.pid, signal.SIGKILL)
        process.join()

    monkeypatch.setattr(multiprocessing.Process, "start", start_and_die)
    with pytest.raises(LoaderKilled, match="train_dataloader: a loader process was"):
        take(stream(num_workers=2), JOBS)


def test_a_data_set_that_no_loader_process_can_get_is_named(monkeypatch):
    spawn = multiprocessing.get_context("spawn")
    monkeypatch.setattr(multiprocessing.context._default_context, "_actual_context", spawn)
    data = stream(num_workers=1)
    data.dataset.transform = lambda sample: sample
    with pytest.raises(ConfigError, match=r"train_dataloader\.dataset: .*lambda.*num_workers=0"):
        data.start(JOBS)
