"""Released split files of CIFAR on archives made of noise: what is written, and damaged files."""

import json

import image_files
import numpy as np
import pytest
from prepare_tools import failure, good, snapshot

from fedseg.data_prep import cifar
from fedseg.datasets import CIFAR10Dataset, CIFAR100Dataset
from fedseg.errors import DataError
from fedseg.partition import ReleasedPartition

TOOL = "prepare_cifar.py"
KIND = {"cifar10": cifar.KINDS["cifar10"], "cifar100": cifar.KINDS["cifar100"]}
DATASET = {"cifar10": CIFAR10Dataset, "cifar100": CIFAR100Dataset}
PLACE = "splits/released"


def names_of(dataset, labels):
    """Names of the released files; two images of CIFAR-100 share one."""
    if dataset == "cifar10":
        return [f"img_{i}_label_{label}.png" for i, label in enumerate(labels)]
    other = int(np.flatnonzero(labels != labels[0])[0])
    return ["thing_s_0.png" if i == other else f"thing_s_{i}.png" for i in range(len(labels))]


def content(users):
    """A released file's content: {client: [(name, label)]}."""
    return {
        "users": [int(user) for user in users],
        "num_samples": [len(samples) for samples in users.values()],
        "user_data": {
            user: {"x": [name for name, _ in samples], "y": [label for _, label in samples]}
            for user, samples in users.items()
        },
    }


class Made:
    """An archive, and the released files for it: alpha 0.5, four clients in an odd order."""

    def __init__(self, folder, dataset):
        self.root, self.files, self.dataset = folder / "root", folder / "files", dataset
        kind, train = KIND[dataset], 12 if dataset == "cifar10" else 4
        images = image_files.image_set(len(kind.classes), train=train, test=2)
        self.labels = {split: images[split][1].tolist() for split in image_files.SPLITS}
        self.names = {s: names_of(dataset, images[s][1]) for s in image_files.SPLITS}
        self.archive = image_files.write_archive(
            folder / "a.tar.gz", kind, images, change=self.name_images
        )
        samples = list(zip(self.names["train"], self.labels["train"], strict=True))
        left_out = dataset == "cifar10"  # the first image, as in the released files
        order = np.random.default_rng(0).permutation(np.arange(left_out, len(samples)))
        parts = np.array_split(order, 4)
        self.indices = {user: parts[i].tolist() for i, user in enumerate(("2", "0", "3", "1"))}
        self.train = content({u: [samples[i] for i in own] for u, own in self.indices.items()})
        tests = list(zip(self.names["test"], self.labels["test"], strict=True))
        self.test = content({"100": tests[1:]})

    def name_images(self, contents):
        for split, batches in KIND[self.dataset].batches.items():
            names = iter(self.names[split])
            for batch in batches:
                contents[batch]["filenames"] = [next(names) for _ in contents[batch]["filenames"]]

    def write(self):
        (self.files / "train").mkdir(parents=True, exist_ok=True)
        file = self.files / "train" / "federated_train_alpha_0.50.json"
        file.write_text(json.dumps(self.train))
        (self.files / "test.json").write_text(json.dumps(self.test))
        return file

    def arguments(self, *more):
        given = ("--dataset", self.dataset, "--root", self.root, "--from", self.files)
        return (TOOL, *given, "--source", self.archive, "--unofficial", *more)


@pytest.fixture(params=["cifar10", "cifar100"])
def made(request, tmp_path):
    return Made(tmp_path, request.param)


def test_the_clients_are_the_files(made, capsys):
    made.write()
    out = good(capsys, *made.arguments())
    file = made.root / PLACE / "alpha0.5.json"
    assert f"{file}: written" in out and "--with released_split" in out
    train = DATASET[made.dataset](made.root)
    clients = ReleasedPartition(alpha=0.5, num_clients=4)(train)
    assert {user: own.tolist() for user, own in clients.items()} == made.indices
    assert list(clients) == ["2", "0", "3", "1"]
    note = json.loads((made.root / PLACE / "split.json").read_text())
    assert note["images_sha256"] == train.split_checksum
    entry = note["train"]["alpha0.5.json"]
    assert (entry["file"], entry["clients"]) == ("federated_train_alpha_0.50.json", 4)
    assert (
        len(entry["left_out"]) == (made.dataset == "cifar10") and len(note["test"]["left_out"]) == 1
    )
    before = snapshot(made.root)
    assert "is there already, the same" in good(capsys, *made.arguments())
    assert snapshot(made.root) == before


def test_two_images_of_one_name(tmp_path, capsys):
    made = Made(tmp_path, "cifar100")
    twins = [i for i, name in enumerate(made.names["train"]) if name == "thing_s_0.png"]
    assert len(twins) == 2
    made.write()
    good(capsys, *made.arguments())
    clients = ReleasedPartition(alpha=0.5, num_clients=4)(CIFAR100Dataset(made.root))
    assert set(twins) <= set(np.concatenate(list(clients.values())).tolist())


def first(made):
    """The first client's lists."""
    return made.train["user_data"]["2"]


def missing_image(made):
    first(made)["x"].pop(), first(made)["y"].pop()
    made.train["num_samples"][0] -= 1
    return "missing"


def other_label(made):
    label = first(made)["y"][0]
    first(made)["y"][0] = (label + 1) % len(KIND[made.dataset].classes)
    return "label"


def held_twice(made):
    name, label = first(made)["x"][0], first(made)["y"][0]
    made.train["user_data"]["0"]["x"][0], made.train["user_data"]["0"]["y"][0] = name, label
    return "'2' already"


def unknown_name(made):
    first(made)["x"][0] = "img_1000000_label_0.png"
    return "img_1000000"


def wrong_count(made):
    made.train["num_samples"][0] += 1
    return "num_samples"


def user_twice(made):
    made.train["users"][1] = made.train["users"][0]
    return "users"


def no_lists(made):
    del first(made)["y"]
    return "user_data"


def missing_test_images(made):
    samples = made.test["user_data"]["100"]
    samples["x"].pop(), samples["y"].pop()
    made.test["num_samples"][0] -= 1
    return "test.json"


@pytest.mark.parametrize(
    "damage",
    [
        missing_image,
        other_label,
        held_twice,
        unknown_name,
        wrong_count,
        user_twice,
        no_lists,
        missing_test_images,
    ],
)
def test_damaged_files(made, damage, capsys):
    word = damage(made)
    made.write()
    told = failure(capsys, *made.arguments())
    assert word in told and str(made.files) in told and told.count("\n") == 1
    assert not (made.root / PLACE).exists()


def test_a_file_that_was_cut_short(made, capsys):
    file = made.write()
    file.write_bytes(file.read_bytes()[:-100])
    assert f"{file}: " in failure(capsys, *made.arguments())


def test_one_class_a_client_with_alpha_0(made, capsys):
    file = made.write()
    file.rename(file.with_name("federated_train_alpha_0.00.json"))
    assert "alpha 0" in failure(capsys, *made.arguments())


def test_images_in_another_order(tmp_path, capsys):
    """Image folders are read class by class."""
    made = Made(tmp_path, "cifar10")
    made.write()
    images = image_files.image_set(10, train=12, test=2)
    folder = image_files.write_folders(tmp_path / "png", images, KIND["cifar10"].classes)
    arguments = ("--root", made.root, "--from", made.files, "--source", folder, "--unofficial")
    assert "order" in failure(capsys, TOOL, *arguments)


def test_no_released_files(made, capsys):
    made.files.mkdir()
    assert f"{made.files}: " in failure(capsys, *made.arguments())


def test_the_partition_refuses_other_images(made, capsys):
    made.write()
    good(capsys, *made.arguments())
    train = DATASET[made.dataset](made.root)
    with pytest.raises(DataError, match=r"alpha7\.json"):
        ReleasedPartition(alpha=7)(train)
    with pytest.raises(DataError, match="num_clients"):
        ReleasedPartition(alpha=0.5)(train)
    note = made.root / PLACE / "split.json"
    note.write_text(json.dumps({**json.loads(note.read_text()), "images_sha256": "0"}))
    with pytest.raises(DataError, match=r"alpha0\.5\.json"):
        ReleasedPartition(alpha=0.5, num_clients=4)(train)
