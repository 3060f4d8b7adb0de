"""The data set contract, its checks, and the three data sets."""

import pickle
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, default_collate

from fedseg.datasets import CamVidDataset, CityscapesDataset, IDDADataset, SegmentationDataset
from fedseg.errors import ConfigError, DataError
from fedseg.loaders.streaming import StreamingData
from fedseg.partition import divide
from fedseg.partition.pixels import ClassHeterogeneous
from fedseg.partition.split_files import Split, read_split, write_split
from fedseg.registry import DATASETS, build

NOISE = [dict(type="GaussNoise", p=1.0), dict(type="GaussianBlur", p=1.0)]
AUGMENTED = [
    dict(type="RandomScaleCrop", scale=(0.5, 2.0), crop_size=(32, 48)),
    dict(type="HorizontalFlip", p=0.5),
    dict(type="ColorJitter", brightness=0.4, contrast=0.4, saturation=0.4, hue=0.0, p=0.5),
    dict(type="OneOf", transforms=NOISE, p=0.5),
]


def test_contract(idda: Path) -> None:
    dataset = DATASETS.build(dict(type="IDDADataset", data_root=str(idda), split="train"))
    assert type(dataset) is IDDADataset and dataset.seeded
    assert len(dataset) == len(dataset.users) == len(dataset.domains) == len(dataset.files) == 12
    assert dataset.users[:5] == ["T01_CN_A"] * 4 + ["T01_HRN_A"]
    assert dataset.domains == dataset.users
    assert all(Path(path).is_file() for pair in dataset.files for path in pair)
    assert dataset.split_checksum == read_split(idda / "train").checksum
    item = dataset[5]
    assert set(item) == {"inputs", "data_samples"}
    assert item["inputs"].dtype == item["data_samples"].dtype == torch.uint8
    assert item["inputs"].shape == (3, 36, 64) and item["data_samples"].shape == (36, 64)
    batch = default_collate([dataset[0], dataset[1]])
    assert batch["inputs"].shape == (2, 3, 36, 64)
    with pytest.raises(IndexError):
        dataset[12]


def test_metainfo(request) -> None:
    for cls, count in ((IDDADataset, 16), (CityscapesDataset, 19), (CamVidDataset, 11)):
        meta = opened(request, cls).metainfo
        assert len(meta["classes"]) == len(meta["palette"]) == count
        assert len(set(meta["classes"])) == len({tuple(c) for c in meta["palette"]}) == count
        assert meta["ignore_index"] == 255


def opened(request, cls: type) -> SegmentationDataset:
    return cls(str(request.getfixturevalue(cls.__name__.removesuffix("Dataset").lower())), "train")


def write_every_id(dataset, index: int, ids: np.ndarray) -> None:
    """Replace a sample by one whose label holds these ids, one a pixel."""
    image, label = dataset.files[index]
    cv2.imwrite(image, np.zeros((1, len(ids), 3), np.uint8))
    cv2.imwrite(label, ids.astype(np.uint8)[None])


EVALUATED = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
OF_IDDA = [255, 2, 4, 255, 11, 5, 0, 0, 1, 8, 13, 3, 7, 6, 255, 255, 15, 14, 12, 9, 10]
OF_CITIES = [EVALUATED.index(i) if i in EVALUATED else 255 for i in range(34)]


@pytest.mark.parametrize(
    ("cls", "ids", "classes"),
    [
        (IDDADataset, range(256), OF_IDDA + [255] * (256 - 21)),
        (CityscapesDataset, [*range(34), 255], [*OF_CITIES, 255]),
        (CamVidDataset, range(12), [*range(11), 255]),
    ],
)
def test_ids_of_files(request, cls, ids, classes) -> None:
    dataset = opened(request, cls)
    write_every_id(dataset, 0, np.array(ids))
    assert dataset[0]["data_samples"][0].tolist() == classes
    assert cls is not CamVidDataset or dataset.domains == ["0006R0", "Seq05VD"]


@pytest.mark.parametrize(("cls", "bad"), [(CityscapesDataset, 34), (CamVidDataset, 12)])
def test_unknown_id_names_file_and_id(cls: type, bad: int, request) -> None:
    dataset = opened(request, cls)
    write_every_id(dataset, 1, np.array([0, 1, bad, 77]))
    with pytest.raises(DataError, match=rf"{dataset.files[1][1]}: .*\[{bad}, 77\]"):
        dataset[1]


@pytest.mark.parametrize(
    "ids", [{0: "lake"}, {0: 0}, {255: "road"}, {300: "road"}, {"0": "road"}, {-1: "road"}]
)
def test_label_ids_that_are_no_classes(idda: Path, ids: dict) -> None:
    class Own(IDDADataset):
        label_ids = ids

    ((raw, own),) = ids.items()
    told = rf"Own\.label_ids: must be raw ids 0 to 254 .*, not {raw!r}: {own!r}"
    with pytest.raises(ConfigError, match=told):
        Own(str(idda), "train")


@pytest.mark.parametrize("first", [0, 1])
def test_ids_below_the_last_class_are_ignored(camvid: Path, first: int) -> None:
    class Own(CamVidDataset):
        label_ids = dict(enumerate(CamVidDataset.classes, start=first))
        num_ids = 0

    dataset = Own(str(camvid), "train")
    write_every_id(dataset, 0, np.array([*range(11 + first), 255]))
    assert dataset[0]["data_samples"][0].tolist() == [255] * first + [*range(11), 255]
    write_every_id(dataset, 0, np.array([11 + first]))
    with pytest.raises(DataError, match=rf"has ids \[{11 + first}\], which"):
        dataset[0]


@pytest.mark.parametrize(
    "colors",
    [[[0, 0]], [[0, 0, 256]], [[0, 0, 1.5]], [[1, 2, 3]] * 2, [[1, 2, n] for n in range(257)]],
)
def test_a_palette_has_a_color_for_each_class(camvid: Path, colors: list) -> None:
    own = type("Own", (CamVidDataset,), {"palette": colors})
    with pytest.raises(ConfigError, match=r"Own\.palette: must have .* for each class"):
        own(str(camvid), "train")
    with pytest.raises(ConfigError, match=r"Own\.classes: must be 1 to 255 names"):
        type("Own", (CamVidDataset,), {"classes": ()})(str(camvid), "train")


def test_users_filter(idda: Path) -> None:
    one = IDDADataset(str(idda), "train", users="T02_CS_B")
    assert one.users == ["T02_CS_B"] * 4
    two = IDDADataset(str(idda), str(idda / "train"), users=["T02_CS_B", "T01_CN_A"])
    assert two.users == ["T02_CS_B"] * 4 + ["T01_CN_A"] * 4
    twice = ("T02_CS_B", "T01_CN_A", "T02_CS_B")
    cases = ("T09", "T01_HRN_A.*'T09'"), (twice, " 2 times 'T02_CS_B'"), ([], "empty")
    for users, told in cases:
        with pytest.raises(ConfigError, match=rf"dataset\.users: .*{told}"):
            IDDADataset(str(idda), "train", users=users)


def test_missing_root_and_split(idda: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere: .*fedseg prepare idda"):
        IDDADataset(str(idda / "nowhere"), "train")
    with pytest.raises(DataError, match=r"test: .*fedseg prepare idda"):
        IDDADataset(str(idda), "test")


def test_missing_files_are_counted_and_named(idda: Path) -> None:
    dataset = IDDADataset(str(idda), "train")
    files = dataset.files
    gone = [files[2][0], files[7][1], *(label for _, label in files[8:])]
    for path in gone:
        Path(path).unlink()
    Path(files[8][1]).parent.rmdir()
    with pytest.raises(DataError, match=r"6 of 24 files .*fedseg prepare idda") as caught:
        IDDADataset(str(idda), "train").check_files()
    assert sum(path in str(caught.value) for path in gone) == 5
    with pytest.raises(DataError, match=rf"{gone[0]}: "):
        dataset[2]


def test_wrong_pair_and_layout(idda: Path) -> None:
    (x, y), (_, other) = read_split(idda / "train").users["T01_CN_A"][:2]
    write_split(idda / "mixed", Split({"a": [(x, other)]}))
    with pytest.raises(DataError, match=rf"mixed: user 'a': .*{x} is {y}, not {other}"):
        IDDADataset(str(idda), "mixed")
    write_split(idda / "flat", Split({"a": [("image.jpg", "label.png")]}))
    with pytest.raises(DataError, match=r"flat: .*image\.jpg is not of IDDADataset's layout"):
        IDDADataset(str(idda), "flat")


def test_unequal_size_names_both_files(idda: Path, make_picture, save_image) -> None:
    dataset = IDDADataset(str(idda), "train")
    image, label = dataset.files[4]
    save_image(Path(image), make_picture(0, 20, 30))
    with pytest.raises(DataError, match=rf"{label}: .*{image} "):
        dataset[4]


def test_test_mode_lets_sizes_differ(idda: Path) -> None:
    pipeline = [dict(type="ResizeInput", size=(16, 24)), dict(type="ResizeLabel", size=(72, 128))]
    item = IDDADataset(str(idda), "train", pipeline=pipeline, test_mode=True)[0]
    assert item["inputs"].shape == (3, 16, 24) and item["data_samples"].shape == (72, 128)
    with pytest.raises(ConfigError, match=r"dataset\.pipeline: .*test_mode"):
        IDDADataset(str(idda), "train", pipeline=pipeline)[0]


def test_contradictions(idda: Path) -> None:
    config = dict(type="IDDADataset", data_root=str(idda), split="train", test_mode=True)
    with pytest.raises(ConfigError, match=r"dataset: .*style"):
        build(DATASETS, config | {"style": dict(type="LABStyle")}, "dataset")


def equal(a: dict, b: dict) -> bool:
    return all(torch.equal(a[key], b[key]) for key in a)


@pytest.mark.parametrize("style", [None, "LABStyle", "CFSIStyle"])
def test_seed_fixes_the_sample_in_any_process(idda: Path, style: str | None) -> None:
    transfer = style and dict(type=style, p=0.5)
    dataset = IDDADataset(str(idda), "train", pipeline=AUGMENTED, style=transfer)
    keys = [(i, e * (2**63 - 1 - i) + i) for e in range(2) for i in range(12)]
    here = [dataset[key] for key in keys]
    again = [pickle.loads(pickle.dumps(dataset))[key] for key in keys]
    assert all(map(equal, here, again))
    loader = DataLoader(dataset, batch_size=None, sampler=keys, num_workers=2)
    assert all(map(equal, here, loader))
    assert not any(equal(here[i], here[i + 12]) for i in range(12))
    assert equal(dataset[3], dataset[3, 0])


def test_style_changes_the_image_only(idda: Path) -> None:
    plain = IDDADataset(str(idda), "train")
    styled = IDDADataset(str(idda), "train", style=dict(type="LABStyle", p=1.0))
    for i in range(12):
        assert not torch.equal(plain[i]["inputs"], styled[i]["inputs"])
        assert torch.equal(plain[i]["data_samples"], styled[i]["data_samples"])


def test_mirrored_images_are_further_samples_of_their_users(cityscapes: Path) -> None:
    plain = CityscapesDataset(str(cityscapes), "train")
    twice = CityscapesDataset(str(cityscapes), "train", mirror=True)
    size = len(plain)
    assert len(twice) == 2 * size and twice.users == 2 * plain.users
    assert twice.split_checksum == plain.split_checksum
    for index in range(size):
        own, mirrored = twice[index], twice[index + size]
        for key, tensor in plain[index].items():
            assert torch.equal(own[key], tensor)
            assert torch.equal(mirrored[key], tensor.flip(-1))
            assert not torch.equal(mirrored[key], tensor)
    with pytest.raises(ConfigError, match=r"dataset\.mirror"):
        options = {"data_root": str(cityscapes), "split": "train", "mirror": "yes"}
        build(DATASETS, {"type": "CityscapesDataset", **options}, "dataset")


PARTITIONS_OF_LABEL_MAPS = [
    {"type": "NaturalPartition"},
    {"type": "HomogeneousPartition", "num_clients": 3},
    {"type": "DirichletPartition", "num_clients": 3, "alpha": 0.5},
    {"type": "SizePartition", "num_clients": 3, "alpha": 1.0},
    {"type": "FixedPartition", "clients": {"a": [0, 5, 7], "b": [1, 2, 11, 4]}},
    {"type": "ClassHeterogeneous", "clients_per_class": 2},
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("recipe", PARTITIONS_OF_LABEL_MAPS)
@pytest.mark.parametrize("holdout", [None, 0.4])
def test_mirrored_images_stay_with_their_originals(idda, recipe, holdout):
    """A client has both or none; what is held out is an original whose twin nobody trains on."""
    recipe = recipe if holdout is None else {**recipe, "holdout": holdout}
    plain = IDDADataset(str(idda), "train")
    clients, held = divide(recipe, plain)
    dataset = IDDADataset(str(idda), "train", mirror=True)
    mirrored_clients, mirrored_held = divide(recipe, dataset)
    size = len(plain)
    assert {c: i.tolist() for c, i in held.items()} == {
        c: i.tolist() for c, i in mirrored_held.items()
    }
    single = recipe["type"] == "ClassHeterogeneous"  # twelve images of sixteen classes
    assert held or holdout is None or single
    for client, indices in clients.items():
        both = [*indices.tolist(), *(indices + size).tolist()]
        assert mirrored_clients[client].tolist() == both
    for index in range(2 * size):
        assert dataset.known_classes(index) == plain.known_classes(index % size)


def test_the_released_style_alternates_within_a_client(idda: Path) -> None:
    style = dict(type="LABStyle", p=0.0, fixed_half=True)
    plain, dataset = IDDADataset(str(idda), "train"), IDDADataset(str(idda), "train", style=style)
    keys = [(i, seed) for i in range(len(plain)) for seed in (0, 1)]
    changed = [not torch.equal(plain[i]["inputs"], dataset[i, s]["inputs"]) for i, s in keys]
    starts = [plain.users.index(user) for user in plain.users]
    assert changed == [(i - start) % 2 == 0 for i, start in enumerate(starts) for _ in range(2)]


@pytest.mark.parametrize(("known", "clients", "mirror"), [(1, 2, False), (3, 1, True)])
def test_clients_know_few_classes(idda, known, clients, mirror):
    options = {"type": "IDDADataset", "data_root": str(idda), "split": "train", "mirror": mirror}
    whole = build(DATASETS, options, "dataset")
    partition = ClassHeterogeneous(known, clients, seed=3)
    # padding of the crop is ignored, not erased
    crop = dict(type="RandomScaleCrop", scale=(0.5, 0.5), crop_size=(36, 64))
    with pytest.warns(UserWarning, match=r"ClassHeterogeneous: \d+ of \d+ clients have no image"):
        data = StreamingData({**options, "pipeline": [crop]}, partition, 1)
    held = [i for samples in data.indices.values() for i in samples]
    assert sorted(held) == list(range(len(whole)))
    sizes = []
    for client, samples in data.indices.items():
        own = whole.classes.index(client.rpartition("_")[0])
        sizes.append(len(samples))
        for i in samples:
            label = whole[i]["data_samples"].numpy()
            kept = data.dataset.known_classes(i)
            assert len(kept) == known and own in kept and own in label
            expected = np.where(np.isin(label, [*kept, 255]), label, 254)
            data.dataset.pipeline = build(DATASETS, options, "dataset").pipeline
            assert np.array_equal(data.dataset[i]["data_samples"], expected)
            assert (i + 12) % 24 in samples or not mirror
    assert max(sizes) <= 2 * (1 + mirror)  # twelve images of sixteen classes
    of_class = [sum(3 in kept for kept in data.dataset.known.values())]
    assert known == 1 or of_class[0] > 1  # more than one class's clients know a class
    padded = build(DATASETS, {**options, "pipeline": [crop]}, "dataset")
    padded.erase(data.dataset.known)
    assert set(np.unique(padded[held[0]]["data_samples"])) >= {254, 255}
    assert not (idda / "splits").exists()


@pytest.mark.parametrize("classes", [0, 17])
def test_clients_cannot_know_more_classes_than_there_are(idda, classes):
    options = {"type": "ClassHeterogeneous", "classes_per_client": classes}
    with pytest.raises(ConfigError, match=r"classes_per_client"):
        StreamingData(IDDADataset(str(idda), "train"), options, 1)
