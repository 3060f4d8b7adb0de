"""Released split files of CIFAR on batches made of noise: what is written, and damaged files."""

import json

import image_files
import numpy as np
import pytest
from prepare_tools import snapshot

from fedseg.data_prep.cifar import CIFAR10, CIFAR100
from fedseg.datasets import CIFAR10Dataset, CIFAR100Dataset
from fedseg.errors import DataError
from fedseg.partition import ReleasedPartition

KIND = {"cifar10": CIFAR10, "cifar100": CIFAR100}
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


class Released:
    """Images, and the released files for them: alpha 0.5, four clients in an odd order."""

    def __init__(self, folder, dataset):
        self.root, self.files, self.dataset = folder / "root", folder / "files", dataset
        kind, train = KIND[dataset], 12 if dataset == "cifar10" else 4
        self.images = images = image_files.image_set(len(kind.classes), train=train, test=2)
        self.labels = {split: images[split][1].tolist() for split in image_files.SPLITS}
        self.names = {s: names_of(dataset, images[s][1]) for s in image_files.SPLITS}
        samples = list(zip(self.names["train"], self.labels["train"], strict=True))
        left_out = dataset == "cifar10"  # the first image, as in the released files
        order = np.random.default_rng(0).permutation(np.arange(left_out, len(samples)))
        parts = np.array_split(order, 4)
        self.indices = {user: parts[i].tolist() for i, user in enumerate(("2", "0", "3", "1"))}
        self.train = content({u: [samples[i] for i in own] for u, own in self.indices.items()})
        tests = list(zip(self.names["test"], self.labels["test"], strict=True))
        self.test = content({"100": tests[1:]})

    def publish(self, patch):
        kind = KIND[self.dataset]
        folder = image_files.write_batches(self.root, kind, self.images, self.names)
        image_files.publish(patch, kind, folder)

    def write(self):
        (self.files / "train").mkdir(parents=True, exist_ok=True)
        file = self.files / "train" / "federated_train_alpha_0.50.json"
        file.write_text(json.dumps(self.train))
        (self.files / "test.json").write_text(json.dumps(self.test))
        return file

    def arguments(self, *more):
        given = ("--dataset", self.dataset, "--root", self.root, "--from", self.files)
        return ("cifar", *given, *more)


@pytest.fixture(params=["cifar10", "cifar100"])
def released(request, tmp_path, monkeypatch):
    released = Released(tmp_path, request.param)
    released.publish(monkeypatch)
    return released


def test_the_clients_are_the_files(released, prepare):
    released.write()
    out = prepare(*released.arguments())
    file = released.root / PLACE / "alpha0.5.json"
    assert f"{file}: written" in out and "--with released_split" in out
    train = DATASET[released.dataset](released.root)
    clients = ReleasedPartition(alpha=0.5, num_clients=4)(train)
    assert {user: own.tolist() for user, own in clients.items()} == released.indices
    twins = [name for name in released.names["train"] if name == "thing_s_0.png"]
    assert len(twins) == 2 * (released.dataset == "cifar100")  # images of one name, both held
    assert list(clients) == ["2", "0", "3", "1"]
    note = json.loads((released.root / PLACE / "split.json").read_text())
    assert note["images_sha256"] == train.split_checksum
    entry = note["train"]["alpha0.5.json"]
    assert (entry["file"], entry["clients"]) == ("federated_train_alpha_0.50.json", 4)
    assert len(entry["left_out"]) == (released.dataset == "cifar10")
    assert len(note["test"]["left_out"]) == 1
    before = snapshot(released.root)
    assert "already exists, unchanged" in prepare(*released.arguments())
    assert snapshot(released.root) == before


def first(released):
    """The first client's lists."""
    return released.train["user_data"]["2"]


def drop_last(content, user):
    own = content["user_data"][user]
    own["x"].pop(), own["y"].pop()
    content["num_samples"][0] -= 1


def take_label_of_another_class(released):
    label = first(released)["y"][0]
    first(released)["y"][0] = (label + 1) % len(KIND[released.dataset].classes)


def hold_twice(released):
    for key in "xy":
        released.train["user_data"]["0"][key][0] = first(released)[key][0]


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (lambda r: drop_last(r.train, "2"), "missing"),
        (take_label_of_another_class, "is not in"),
        (hold_twice, "already"),
        (lambda r: first(r)["x"].__setitem__(0, "img_1000000_label_0.png"), "img_1000000"),
        (lambda r: r.train["num_samples"].__setitem__(0, 0), "num_samples"),
        (lambda r: r.train["users"].__setitem__(1, r.train["users"][0]), "users"),
        (lambda r: first(r).pop("y"), "user_data"),
        (lambda r: drop_last(r.test, "100"), "test.json"),
    ],
)
def test_damaged_files(released, damage, word, prepare):
    damage(released)
    released.write()
    told = prepare.fails(*released.arguments())
    assert word in told and str(released.files) in told and told.count("\n") == 1
    assert not (released.root / PLACE).exists()


def test_one_class_a_client_with_alpha_0(released, prepare):
    file = released.write()
    file.rename(file.with_name("federated_train_alpha_0.00.json"))
    assert "alpha 0" in prepare.fails(*released.arguments())


def test_images_in_another_order(tmp_path, prepare):
    """Images of .npz files may have any."""
    released = Released(tmp_path, "cifar10")
    released.write()
    npz = image_files.write_npz(tmp_path / "npz", released.images, KIND["cifar10"].classes)
    assert "archive's order" in prepare.fails(*released.arguments("--npz", npz))


def test_no_released_files(released, prepare):
    released.files.mkdir()
    assert f"{released.files}: " in prepare.fails(*released.arguments())


def test_the_partition_refuses_other_images(released, prepare):
    released.write()
    prepare(*released.arguments())
    train = DATASET[released.dataset](released.root)
    with pytest.raises(DataError, match=r"alpha7\.json"):
        ReleasedPartition(alpha=7)(train)
    with pytest.raises(DataError, match="num_clients"):
        ReleasedPartition(alpha=0.5)(train)
    note = released.root / PLACE / "split.json"
    note.write_text(json.dumps({**json.loads(note.read_text()), "images_sha256": "0"}))
    with pytest.raises(DataError, match=r"alpha0\.5\.json"):
        ReleasedPartition(alpha=0.5, num_clients=4)(train)
