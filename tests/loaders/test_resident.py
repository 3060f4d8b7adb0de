"""Resident batches: their readable twin, their plan, and that no image is touched by itself."""

import copy
from collections import Counter

import numpy as np
import pytest
import torch
from batch_twins import batches_one_by_one

from fedseg.core.client_data import Job, JobStream
from fedseg.core.messages import Exchange
from fedseg.datasets import ImageArrays
from fedseg.datasets.batch_transforms import BatchPipeline, Cutout
from fedseg.errors import ConfigError
from fedseg.loaders.partitioned import balanced_batches
from fedseg.loaders.resident import ResidentData
from fedseg.loaders.streaming import StreamingData
from fedseg.registry import BATCH_TRANSFORMS, CLIENT_DATA, build

SIZES = {"a": 23, "b": 8, "c": 1, "d": 3, "e": 16}
TOTAL = sum(SIZES.values())
CLASSES = 5
NORMALIZE = {"type": "Normalize", "mean": (0.4, 0.5, 0.6), "std": (0.2, 0.25, 0.3)}
AUGMENTED = [
    {"type": "RandomCrop", "padding": 2},
    {"type": "RandomFlip"},
    NORMALIZE,
    {"type": "Cutout", "size": 3},
    {"type": "Mixup", "alpha": 0.5},
]


def arrays(shape=(8, 6, 3), seed: int = 0) -> ImageArrays:
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (TOTAL, *shape), dtype=np.uint8)
    images[:, 0, 0, 0] = np.arange(TOTAL)  # tells which image it is
    labels = rng.integers(0, CLASSES, TOTAL)
    return ImageArrays(images, labels, [f"class {i}" for i in range(CLASSES)])


DATASET = arrays()
ORDER = np.random.default_rng(3).permutation(TOTAL)  # clients hold samples in no order


def clients(dataset) -> dict[str, np.ndarray]:
    ends = np.cumsum(list(SIZES.values()))
    return {c: ORDER[e - n : e] for (c, n), e in zip(SIZES.items(), ends, strict=True)}


def resident(**options) -> ResidentData:
    given = {"dataset": DATASET, "partition": clients, "batch_size": 8, "transforms": AUGMENTED}
    return ResidentData(**{**given, **options})


def batches(data: ResidentData, *job: int) -> list[dict[str, torch.Tensor]]:
    return list(data.batches(Job(*job)))


def same(one, two) -> bool:
    return len(one) == len(two) and all(
        torch.equal(a[name], b[name])
        for a, b in zip(one, two, strict=True)
        for name in ("inputs", "data_samples")
    )


def drawn_samples(data: ResidentData, *job: int) -> list[list[int]]:
    """Indices of the samples of every batch, read off the images."""
    return [batch["inputs"][:, 0, 0, 0].tolist() for batch in batches(data, *job)]


# ---------------------------------------------------------------- the readable twin

OPTIONS = {
    "plain": {"transforms": [NORMALIZE]},
    "no transforms": {"transforms": []},
    "augmented, three epochs": {"local_epochs": 3},
    "full": {"batch_size": "full"},
    "in order": {"shuffle": False},
    "crop to a smaller size": {"transforms": [{"type": "RandomCrop", "size": 5}, NORMALIZE]},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", OPTIONS)
def test_batches_are_their_images_one_by_one(name, dtype):
    data = resident(dtype=dtype, **OPTIONS[name])
    tolerance = 1e-6 if dtype == torch.float32 else 1e-12
    for client in range(len(data.clients)):
        for round_ in (1, 7):
            job = Job(round_, 0, client)
            made, twins = list(data.batches(job)), list(batches_one_by_one(data, job))
            assert len(made) == len(twins) == data.num_steps(client)
            for batch, twin in zip(made, twins, strict=True):
                for key, value in twin.items():
                    assert tuple(batch[key].shape) == value.shape
                    assert np.abs(batch[key].numpy() - value.astype(float)).max() <= tolerance
                if name != "no transforms":
                    assert batch["inputs"].dtype == dtype


@pytest.mark.parametrize("shape", [(8, 8, 4), (8, 5, 3)])  # a multiple of 64 bytes, or not
@pytest.mark.parametrize("name", ["plain", "augmented, three epochs", "full", "in order", "mixup"])
def test_batches_made_together_are_those_made_alone(name, shape, monkeypatch):
    mean = [0.5] * shape[2]
    normalize = {"type": "Normalize", "mean": mean, "std": mean}
    mixed = [{"type": "RandomCrop"}, normalize, {"type": "Mixup"}]
    augmented = [
        {"type": "RandomCrop"},
        {"type": "RandomFlip"},
        normalize,
        {"type": "Cutout", "size": 3},
    ]
    options = {
        "dataset": arrays(shape),
        **OPTIONS.get(name, {}),
        "transforms": {"plain": [normalize], "mixup": mixed}.get(name, augmented),
    }
    calls = Counter()
    apply = BatchPipeline.apply
    monkeypatch.setattr(BatchPipeline, "apply", lambda *a: calls.update([len(a[1])]) or apply(*a))
    data = resident(**options)
    stream = JobStream(lambda round_: [0, 2, 3], 1, 3, [Exchange(full_gradient=True), Exchange()])
    data.start(stream)
    jobs = list(stream)
    made = [list(data.batches(job)) for job in jobs]
    together = calls.total()
    for job, batches_ in zip(jobs, made, strict=True):
        assert same(batches_, list(data.batches_alone(job)))
    assert (together < calls.total() - together) == (name != "mixup")
    data.start(stream)
    wanted = [jobs[0], jobs[5], jobs[1], jobs[2]]  # one of them is not the next of the stream
    for job in wanted:
        assert same(list(data.batches(job)), made[jobs.index(job)])


@BATCH_TRANSFORMS.register_module()
class FirstOfBatch(Cutout):
    """Shows the first image of a batch everywhere."""

    def apply(self, images, labels, draws):
        return images[:1].repeat(len(images), 1, 1, 1), labels


@pytest.mark.parametrize(
    "steps", [[{"type": "RandomCrop", "size": 5}], [{"type": "FirstOfBatch", "size": 1}]]
)
def test_batches_may_be_changed_in_place_and_begin_where_tensors_do(steps):
    mean = [0.5] * 4
    transforms = [{"type": "Normalize", "mean": mean, "std": mean}, *steps]
    data = resident(dataset=arrays((8, 8, 4)), transforms=transforms, batch_size=3)
    stream = JobStream(lambda round_: [0, 2, 3], 1, 2)
    data.start(stream)
    shift = torch.ones((), requires_grad=True)
    for job in stream:
        for batch, alone in zip(data.batches(job), data.batches_alone(job), strict=True):
            assert torch.equal(batch["inputs"], alone["inputs"])
            assert batch["inputs"].data_ptr() % 64 == 0  # else matrix products round otherwise
            batch["inputs"] += shift  # as a learnable prompt does


# ---------------------------------------------------------------- a pure function of seed and job


def test_batches_are_a_pure_function_of_seed_and_job():
    data = resident(seed=4, local_epochs=2)
    first = batches(data, 5, 0, 0)
    batches(data, 1, 0, 2)
    torch.manual_seed(9)
    assert same(batches(data, 5, 0, 0), first)
    assert same(batches(data, 5, 1, 0), first), "a second exchange sees the same batches"
    assert same(batches(resident(seed=4, local_epochs=2), 5, 0, 0), first)
    assert same(batches(copy.deepcopy(data), 5, 0, 0), first)
    for other in (batches(data, 6, 0, 0), batches(resident(seed=5, local_epochs=2), 5, 0, 0)):
        assert not same(other, first)
    assert not same(first[:3], first[3:]), "epochs differ"


def test_the_global_generators_are_left_alone():
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    batches(resident(), 1, 0, 0)
    list(resident().sample_batches([[0, 1], [2]]))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002


def test_no_two_epochs_clients_rounds_steps_or_seeds_share_their_draws():
    seen = Counter()
    twice = [step for step in AUGMENTED for _ in range(1 + (step is not NORMALIZE))]
    for seed in (0, 1):
        data = resident(seed=seed, transforms=twice)
        for round_ in (1, 2, 3):
            for client in range(len(SIZES)):
                for epoch in (0, 1):
                    for own in data.draws(Job(round_, 0, client), epoch, [40]):
                        seen.update((name, rows.tobytes()) for name, rows in own.items())
    assert set(seen.values()) == {1}
    # crop: top, left; flip; cutout: y, x; mixup: weight, other
    assert len(seen) == 2 * 7 * 2 * 3 * len(SIZES) * 2


# ---------------------------------------------------------------- which samples, in which order


@pytest.mark.parametrize(
    "options",
    [{"local_epochs": 2, "seed": 11}, {"local_steps": 7}, {"batch_size": "full", "shuffle": False}],
)
def test_the_order_is_that_of_the_streaming_loader(options):
    own = resident(transforms=[], **options)
    streamed = StreamingData(DATASET, clients, **{"batch_size": 8, **options})
    jobs = [Job(round_, 0, client) for round_ in (1, 2) for client in range(len(SIZES))]
    streamed.start(jobs)
    for job in jobs:
        assert own.num_steps(job.client) == streamed.num_steps(job.client)
        expected = list(streamed.batches(job))
        assert same(expected, list(own.batches(job)))  # images and labels, bit for bit
        keys = [[i for i, _ in batch] for batch in streamed.batch_keys(job)]
        assert keys == drawn_samples(own, job.round, 0, job.client)
    assert own.checksum() == streamed.checksum()
    streamed.close()


def test_samples_of_ones_choice():
    """As for re-estimating BatchNorm: given samples, augmented, the same every time."""
    data = resident(transforms=[])
    plan = balanced_batches(np.arange(TOTAL)[::3], 8)
    made = list(data.sample_batches(plan))
    assert [batch["inputs"][:, 0, 0, 0].tolist() for batch in made] == plan
    assert same(list(resident().sample_batches(plan)), list(resident(seed=8).sample_batches(plan)))


# ---------------------------------------------------------------- nothing image by image


def test_no_sample_is_asked_for_by_itself(monkeypatch):
    def refuse(*_):
        raise AssertionError("a sample was asked for")

    data = resident()
    monkeypatch.setattr(ImageArrays, "__getitem__", refuse)
    monkeypatch.setattr(ImageArrays, "gather", refuse)
    assert len(batches(data, 1, 0, 0)) == 3


# ---------------------------------------------------------------- what is refused


def test_a_data_set_without_arrays():
    numbers = torch.utils.data.TensorDataset(torch.arange(3))
    with pytest.raises(ConfigError, match=r"train_dataloader\.type: .* not TensorDataset: leave"):
        resident(dataset=numbers, partition=lambda d: {"a": [0]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": 4}, r"train_dataloader\.num_workers: unknown argument of ResidentData"),
        ({"transforms": [{"type": "Cutout", "size": 2}]}, r"train_dataloader\.transforms\[0\]"),
        (
            {"transforms": [{"type": "Normalize", "mean": [0.5], "std": [0.5]}]},
            "has 1 channels, the images have 3",
        ),
    ],
)
def test_options_that_make_no_sense(options, message):
    given = {"dataset": DATASET, "partition": clients, "batch_size": 8, **options}
    with pytest.raises(ConfigError, match=message):
        build(CLIENT_DATA, {"type": "ResidentData", **given}, "train_dataloader")
