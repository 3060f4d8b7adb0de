"""GradAug's loss against networks cut by hand, its gradient against differences, its draws."""

import math

import minibatch
import pytest
import torch

from fedseg.algorithms import Ditto
from fedseg.errors import ConfigError
from fedseg.local_losses import GradAug, LocalLoss
from fedseg.models import CNN

SIDES = (8, 7, 5)


def make(loss, groups=None, seed=11, **options):
    model = minibatch.scrambled(minibatch.ToyResNet(widths=(8, 8, 16), groups=groups))
    client = minibatch.local_client(model, loss, **options)
    torch.manual_seed(seed)
    return client


def draws(loss, seed=11):
    """Channels of the two sub-networks in layers of 8 and 16, and their resolutions."""
    torch.manual_seed(seed)
    parts = torch.rand(2, dtype=torch.float64)
    if loss.smallest:
        parts[0] = 0
    widths = [loss.width + (1 - loss.width) * float(part) for part in parts]
    sides = [SIDES[i] for i in torch.randint(len(SIDES), (2,))] if loss.resolutions else [8, 8]
    return widths, sides


def at_resolution(images, side):
    """Corners stay corners; between four pixels it is linear in each direction."""
    old = images.shape[2]
    where = torch.arange(side, dtype=torch.float64) * (old - 1) / (side - 1)
    low = where.floor().long().clamp_max(old - 2)
    part = where - low
    rows = images[:, :, low] * (1 - part)[:, None] + images[:, :, low + 1] * part[:, None]
    return rows[..., low] * (1 - part) + rows[..., low + 1] * part


def narrower(client, eight, sixteen, groups):
    """A network of its own with so many channels in its layers, and the client's first weights."""
    network = minibatch.ToyResNet(widths=(eight, eight, sixteen), groups=groups)
    state = {slot.name: slot.view(client.w) for slot in client.flat.slots}
    own = {
        name: state[name][tuple(slice(size) for size in tensor.shape)]
        for name, tensor in network.named_parameters()
    }
    network.double().train()
    network.load_state_dict(own, strict=False)
    return network


def loss_by_hand(client, target, channels, sides, mu, groups=None):
    """Cross-entropy of the full network and divergences of the others, image by image."""
    images, labels = client.batch["inputs"], client.batch["data_samples"].tolist()
    full = narrower(client, 8, 16, groups)(images).softmax(1)
    total = -sum(full[i, c].log().item() for i, c in enumerate(labels)) / len(labels)
    for (eight, sixteen), side in zip(channels, sides, strict=True):
        network = narrower(client, eight, sixteen, groups)
        found = network(at_resolution(images, side)).softmax(1)
        for p, q in zip(target.flatten().tolist(), found.flatten().tolist(), strict=True):
            total += mu * p * math.log(p / q) / len(labels)
    return torch.tensor(total, dtype=torch.float64)


def rounded(width, channels, multiple):
    """The nearest multiple, the next if that takes away more than a tenth."""
    nearest = min(range(multiple, channels + 1, multiple), key=lambda k: abs(k - channels * width))
    return nearest if nearest >= 0.9 * channels * width else nearest + multiple


@pytest.mark.parametrize(
    ("options", "groups", "multiple"),
    [
        ({"resolutions": SIDES}, None, 1),
        ({"resolutions": None, "width": 0.4, "mu": 0.5}, None, 1),
        ({"resolutions": SIDES, "width": 0.3, "smallest": True, "multiple": 4}, None, 4),
        ({"resolutions": SIDES, "width": 0.5}, 4, 4),  # four groups of fewer channels
    ],
    ids=["default", "widths only", "released code", "GroupNorm"],
)
def test_loss_and_gradient(options, groups, multiple):
    loss = GradAug(**options)
    widths, sides = draws(loss)
    client = make(loss, groups)
    channels = [tuple(rounded(w, c, multiple) for c in (8, 16)) for w in widths]
    assert channels != [(8, 16), (8, 16)]
    gradient = minibatch.gradient(client)
    with torch.no_grad():
        target = narrower(client, 8, 16, groups)(client.batch["inputs"]).softmax(1)

    def by_hand():
        return loss_by_hand(client, target, channels, sides, loss.mu, groups)

    torch.testing.assert_close(client.loss, by_hand(), rtol=1e-9, atol=0)
    plain = minibatch.gradient(make(LocalLoss(), groups))
    places = minibatch.some_entries(gradient - plain, 12)
    slopes = minibatch.slopes(by_hand, client.w, places)
    assert minibatch.relative_error(gradient[places], slopes) < 1e-6


# ---------------------------------------------------------------- draws


def test_widths_and_resolutions():
    loss = GradAug(n=3, width=0.8, resolutions=(32, 28))
    torch.manual_seed(0)
    widths, sides = zip(*(loss._draw() for _ in range(300)), strict=True)
    widths = torch.tensor(widths)
    assert widths.min() >= 0.8 and widths.max() <= 1
    assert ((widths.mean(0) - 0.9).abs() < 0.015).all()
    assert widths.std(0).min() > 0.05  # 0.2 / sqrt 12 = 0.058
    counts = [sum(row[i] == 28 for row in sides) for i in range(3)]
    assert all(100 < count < 200 for count in counts)
    released = GradAug(n=3, width=0.8, smallest=True)
    widths = torch.tensor([released._draw()[0] for _ in range(20)])
    assert (widths[:, 0] == 0.8).all() and (widths[:, 1:] > 0.8).all()
    assert GradAug(resolutions=None)._draw()[1] == [None, None]


def test_both_passes_of_a_step_have_the_same_sub_networks():
    client = make(GradAug(width=0.3, resolutions=SIDES), algorithm=Ditto())
    first = minibatch.gradient(client)
    after = torch.get_rng_state()
    client.backward(replay=True)
    assert torch.equal(client.grad, first)
    assert torch.equal(torch.get_rng_state(), after)
    assert not torch.equal(minibatch.gradient(client), first)  # the next step has others


def test_statistics_are_the_full_network_s():
    client, plain = make(GradAug(resolutions=SIDES)), make(LocalLoss())
    client.backward()
    plain.backward()
    assert torch.equal(client.buffers, plain.buffers)
    assert torch.equal(client.counters, plain.counters)


def test_nothing_comes_from_the_full_network_s_output():
    """It is a target: where all sub-networks are the full one, their gradient is zero."""
    client, plain = make(GradAug(width=1.0, resolutions=None)), make(LocalLoss())
    found, expected = minibatch.gradient(client), minibatch.gradient(plain)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(client.loss, plain.loss)


# ---------------------------------------------------------------- refusals


def test_a_network_for_one_size_has_one_resolution():
    flat = minibatch.FlatModel(CNN(10))
    message = r"local_loss\.resolutions: CNN takes \(32, 32\) only, not \[28, 24"
    with pytest.raises(ConfigError, match=message):
        GradAug().setup(flat)
    for resolutions in (None, (32,)):
        GradAug(resolutions=resolutions).setup(flat)
