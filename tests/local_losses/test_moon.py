"""MOON's loss against loops over images, its gradient against differences, who keeps what."""

import math

import minibatch
import pytest
import torch

from fedseg.local_losses import MOON, LocalLoss
from fedseg.models import ResNet56

PREVIOUS = "moon_previous"


def features_by_hand(w, model, images):
    """ToyProjected's, from the vector's slots, with the batch's statistics or frozen ones."""
    flat = {}
    for slot in model.slots:
        flat[slot.name] = slot.view(w).contiguous()
    x = torch.nn.functional.conv2d(images, flat["conv.weight"], flat["conv.bias"], stride=2)
    norm, mean = model.model.norm, x.mean((0, 2, 3), keepdim=True)
    var = (x - mean).square().mean((0, 2, 3), keepdim=True)
    if not norm.training:
        mean, var = (v.view(1, -1, 1, 1) for v in (norm.running_mean, norm.running_var))
    x = (x - mean) / (var + 1e-5).sqrt()
    x = x * flat["norm.weight"][:, None, None] + flat["norm.bias"][:, None, None]
    x = torch.tanh(x).mean((2, 3))
    x = (x @ flat["projection.0.weight"].T + flat["projection.0.bias"]).clamp_min(0)
    x = x @ flat["projection.2.weight"].T + flat["projection.2.bias"]
    return x, x @ flat["classifier.weight"].T + flat["classifier.bias"]


def cosine(a, b):
    dot = sum(float(x) * float(y) for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(float(x) ** 2 for x in a) * sum(float(y) ** 2 for y in b))


def loss_by_hand(w, start, previous, model, batch, mu, tau):
    images, labels = batch["inputs"], batch["data_samples"]
    own, logits = features_by_hand(w, model, images)
    received, earlier = (features_by_hand(v, model, images)[0] for v in (start, previous))
    supervised = contrastive = 0.0
    for i, label in enumerate(labels):
        odds = [math.exp(float(z)) for z in logits[i]]
        supervised -= math.log(odds[int(label)] / sum(odds)) / len(labels)
        a = math.exp(cosine(own[i], received[i]) / tau)
        b = math.exp(cosine(own[i], earlier[i]) / tau)
        contrastive -= math.log(a / (a + b)) / len(labels)
    return supervised + mu * contrastive


def moved(w, seed):
    return w + 0.3 * torch.randn(w.shape, generator=torch.Generator().manual_seed(seed)).double()


def client_with_past(loss, **options):
    model = minibatch.scrambled(minibatch.ToyProjected(**options))
    probe = minibatch.FlatModel(model).w.clone()
    client = minibatch.local_client(model, loss, {PREVIOUS: moved(probe, 1)})
    client.w.copy_(moved(probe, 2))
    return client


@pytest.mark.parametrize(("mu", "tau"), [(1.0, 0.5), (5.0, 0.2)])
def test_loss_and_gradient(mu, tau):
    client = client_with_past(MOON(mu, tau))

    def by_hand():
        past = client.state[PREVIOUS]
        return torch.tensor(
            loss_by_hand(client.w, client.start, past, client.flat, client.batch, mu, tau),
            dtype=torch.float64,
        )

    gradient = minibatch.gradient(client)
    torch.testing.assert_close(client.loss, by_hand())
    places = minibatch.some_entries(gradient, 40)
    slopes = minibatch.slopes(by_hand, client.w, places)
    assert minibatch.relative_error(gradient[places], slopes) < 1e-7


class Frozen(minibatch.ToyProjected):
    """Its BatchNorm stays in eval mode, as that of a fine-tuned backbone."""

    def train(self, mode=True):
        super().train(mode)
        self.norm.eval()
        return self


def test_statistics_that_a_network_has_frozen_normalize_all_three():
    model = minibatch.scrambled(Frozen())
    model.norm.running_mean.copy_(torch.tensor([0.5, -1.0, 0.2]))
    model.norm.running_var.copy_(torch.tensor([0.3, 2.0, 4.0]))
    client = minibatch.local_client(model, MOON(mu=5.0))
    client.state[PREVIOUS] = moved(client.w, 1)
    client.w.copy_(moved(client.w, 2))
    minibatch.gradient(client)
    assert not model.norm.training and model.classifier.training
    past = client.state[PREVIOUS]
    hand = loss_by_hand(client.w, client.start, past, client.flat, client.batch, 5.0, 0.5)
    assert float(client.loss) == pytest.approx(hand, rel=1e-12)


def test_first_participation_has_no_term():
    client = minibatch.local_client(minibatch.scrambled(minibatch.ToyProjected()), MOON())
    plain = minibatch.local_client(minibatch.scrambled(minibatch.ToyProjected()), LocalLoss())
    assert torch.equal(minibatch.gradient(client), minibatch.gradient(plain))
    assert torch.equal(client.loss, plain.loss)
    # a received model as the previous one would only add mu log 2
    client.state[PREVIOUS] = client.start.clone()
    client.w.copy_(moved(client.w, 3))
    plain.w.copy_(client.w)
    found, expected = minibatch.gradient(client), minibatch.gradient(plain)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(client.loss, plain.loss + math.log(2))


def test_fixed_networks_draw_and_change_nothing():
    """Dropout and statistics of the trained network are as without the term; the others: none."""
    client, plain = (
        client_with_past(MOON(), dropout=0.5),
        client_with_past(LocalLoss(), dropout=0.5),
    )
    states = []
    for one in (client, plain):
        torch.manual_seed(3)
        one.backward()
        states.append((torch.get_rng_state(), one.buffers.clone(), one.counters.clone()))
    assert torch.equal(states[0][0], states[1][0])
    assert torch.equal(states[0][1], states[1][1])
    assert torch.equal(states[0][2], states[1][2])
    assert all(module.training for module in client.model.modules())
    assert all(m.track_running_stats for m in client.model.modules() if hasattr(m, "running_mean"))
    client.flat.check_views()
    # with the same parameters an image without dropout is what it is compared with
    client.model.dropout.p = 0.0
    client.w.copy_(client.start)
    term = client._trainer.local_loss.loss(client) - client.model_loss()
    own, earlier = (
        features_by_hand(w, client.flat, client.batch["inputs"])[0]
        for w in (client.w, client.state[PREVIOUS])
    )
    lead = torch.tensor([1 - cosine(a, b) for a, b in zip(own, earlier, strict=True)])
    torch.testing.assert_close(term.item(), torch.log1p(torch.exp(-lead / 0.5)).mean().item())


def test_without_a_projection_features_are_compared():
    model = minibatch.scrambled(minibatch.ToyResNet())
    client = minibatch.local_client(model, MOON(), {PREVIOUS: torch.zeros(0)})
    client.state[PREVIOUS] = moved(client.w, 1)
    client.w.copy_(moved(client.w, 2))
    plain = minibatch.local_client(minibatch.scrambled(minibatch.ToyResNet()), LocalLoss())
    plain.w.copy_(client.w)
    difference = minibatch.gradient(client) - minibatch.gradient(plain)
    for slot in client.flat.slots:  # the term reaches everything below the classifier
        assert (slot.view(difference).abs().max() > 0) == ("classifier" not in slot.name)


def test_the_paper_s_head_on_resnet56():
    model = ResNet56(10, projection=(256, 256))
    images = torch.randn(2, 3, 8, 8)
    assert model.features(images).shape == (2, 256)
    assert [type(layer).__name__ for layer in model.projection] == ["Linear", "ReLU", "Linear"]
    assert (model.features(images) < 0).any()
