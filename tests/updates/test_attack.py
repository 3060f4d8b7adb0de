"""Attacks: who attacks, what attackers send, which labels they train on."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import toycls
import toyquad
import toyseg
from toyquad import fixed, local_steps, trace

from fedseg.core.messages import Update
from fedseg.errors import ConfigError
from fedseg.updates.attack import LabelSwap, SignFlip

SGD = {"type": "SGD", "lr": 0.05}
PLAN = ("abcd", "acd", "abcd", "bd")


def set_up(attack, clients="abcd", names=()):
    dataset = SimpleNamespace(metainfo={"classes": names})
    data = SimpleNamespace(clients=list(clients), dataset=dataset)
    attack.setup(flat=None, algorithm=None, data=data, seed=0)
    return attack


def test_sign_flip(tmp_path):
    (attacker,) = set_up(SignFlip(share=0.25)).attackers
    config = toyquad.run(
        tmp_path,
        {"type": "FedAvg"},
        client_sampler=fixed(*PLAN),
        attack={"type": "SignFlip", "share": 0.25, "scale": 3.0},
    )
    w = np.array(toyquad.START)
    for clients, after in zip(PLAN, trace(config)[1:], strict=True):
        sizes = [toyquad.USERS[k] for k in clients]
        deltas = []
        for k in clients:
            delta = w - local_steps(k, w, 5, 0.1)
            deltas.append(-3.0 * delta if k == "abcd"[attacker] else delta)
        w = w - np.average(deltas, axis=0, weights=sizes)
        np.testing.assert_allclose(after, w, rtol=1e-12)


def test_sign_flip_reaches_payloads_and_numbers():
    attack = set_up(SignFlip(share=1.0, scale=2.0))
    delta = torch.ones(3)
    update = Update({"delta": delta}, payloads={"counts": torch.ones(2)}, numbers={"gap": 0.5})
    attack.process_update(SimpleNamespace(index=0), update)
    assert update.vectors["delta"].tolist() == [-2] * 3 and delta.tolist() == [1] * 3
    assert update.payloads["counts"].tolist() == [-2, -2]
    assert update.numbers == {"gap": -1.0}


@pytest.mark.parametrize(
    ("names", "classes", "swapped"),
    [
        (("road", "car", "sidewalk"), None, [2, 1, 0, 255]),
        (("a", "b", "c"), None, [1, 0, 2, 255]),
        (("a", "b", "c"), ("c", "b"), [0, 2, 1, 255]),
        ((), (0, 2), [2, 1, 0, 255]),
    ],
)
def test_swapped_labels(names, classes, swapped):
    attack = set_up(LabelSwap(share=0.25, classes=classes), names=names)
    labels = torch.tensor([0, 1, 2, 255])
    (attacker,) = attack.attackers
    for client in range(4):
        ids = {"inputs": torch.zeros(4), "data_samples": labels}
        probabilities = {"inputs": torch.zeros(3), "data_samples": torch.eye(3)}
        trained = attack.process_batch(SimpleNamespace(index=client), ids)
        mixed = attack.process_batch(SimpleNamespace(index=client), probabilities)
        expected = swapped if client == attacker else [0, 1, 2, 255]
        assert trained["data_samples"].tolist() == expected
        assert mixed["data_samples"].argmax(1).tolist() == expected[:3]
        assert labels.tolist() == [0, 1, 2, 255]


@pytest.mark.parametrize(
    ("algorithm", "local_loss"),
    [
        ("FedAvg", None),
        ("FedAvg", {"type": "MOON"}),
        ("FedDGGA", {"type": "GradAug", "n": 1, "resolutions": None}),
        ("MIME", None),
    ],
)
def test_attackers_train_as_if_their_labels_were_exchanged(
    tmp_path, monkeypatch, algorithm, local_loss
):
    """In local steps, full gradients and an algorithm's own passes, with every local loss."""
    root = toycls.write_data(tmp_path / "data")
    options = {
        "algorithm": {"_delete_": True, "type": algorithm},
        "local_loss": local_loss,
        "averaging": None,
        "optim_wrapper": {"_delete_": True, "type": "OptimWrapper", "optimizer": SGD},
        "train_cfg": {"max_rounds": 2, "val_last_rounds": 0},
    }
    attack = {"type": "LabelSwap", "share": 1.0, "classes": (1, 3)}
    attacked = toycls.run(tmp_path / "attacked", root, attack=attack, **options)
    plain = toycls.run(tmp_path / "plain", root, **options)

    def write_exchanged(count, seed):
        images, labels = pictures(count, seed)
        return images, np.array([0, 3, 2, 1])[labels]

    pictures = toycls.pictures
    monkeypatch.setattr(toycls, "pictures", write_exchanged)
    exchanged = toycls.run(tmp_path / "exchanged", toycls.write_data(tmp_path / "other"), **options)
    models = [toyseg.checkpoint(run)["state_dict"] for run in (attacked, exchanged, plain)]
    assert toyseg.differences(models[0], models[1]) == []
    assert toyseg.differences(models[0], models[2])


@pytest.mark.parametrize("classes", [("a", "x"), (0,), (1, 1), (0, 3), (-1, 0)])
def test_classes_that_cannot_be_swapped(classes):
    with pytest.raises(ConfigError, match=r"attack\.classes: must be two of \['a', 'b', 'c'\]"):
        set_up(LabelSwap(classes=classes), names=("a", "b", "c"))


def test_a_batch_without_labels():
    with pytest.raises(ConfigError, match="attack: LabelSwap needs batches that are a dict"):
        set_up(LabelSwap(share=1.0)).process_batch(SimpleNamespace(index=0), (torch.ones(2), 1))
