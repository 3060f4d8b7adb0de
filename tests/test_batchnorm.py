"""Which statistics BatchNorm layers use inside the contexts, and that everything is restored."""

import pytest
import torch
from torch import nn

from fedseg.batchnorm import (
    batch_statistics,
    batch_statistics_where_defined,
    batchnorm_layers,
    frozen_running_statistics,
)


@pytest.fixture
def model():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.Flatten(), nn.LazyBatchNorm1d()
    )
    model(2 + 3 * torch.randn(4, 3, 5, 5))  # running statistics that differ from the defaults
    return model


def state_of(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def modes_of(model):
    return [(m.training, getattr(m, "track_running_stats", None)) for m in model.modules()]


def assert_same_state(model, state):
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, state[name]), name


def test_layers_of_every_dimension_are_found(model):
    assert list(batchnorm_layers(model)) == ["1", "4"]
    assert list(batchnorm_layers(nn.Sequential(nn.BatchNorm3d(2), nn.SyncBatchNorm(2)))) == [
        "0",
        "1",
    ]
    assert batchnorm_layers(nn.GroupNorm(1, 2)) == {}


def test_batch_statistics(model):
    model.eval()
    state, modes = state_of(model), modes_of(model)
    x = torch.randn(6, 3, 5, 5)
    with batch_statistics(model):
        output = model(x)
        assert not model.training and not model[2].training  # dropout stays off
    assert_same_state(model, state)
    assert modes_of(model) == modes

    def normalized(values, dims):
        mean = values.mean(dims, keepdim=True)
        return (values - mean) / (values.var(dims, unbiased=False, keepdim=True) + 1e-5).sqrt()

    expected = normalized(normalized(model[0](x), (0, 2, 3)).flatten(1), (0,))
    torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(output, model(x), atol=0.1)


def test_frozen_running_statistics_in_training(model):
    model.train()
    state, modes = state_of(model), modes_of(model)
    x = torch.randn(6, 3, 5, 5)
    torch.manual_seed(1)
    with frozen_running_statistics(model):
        frozen = model(x)
    assert_same_state(model, state)
    assert modes_of(model) == modes
    torch.manual_seed(1)
    assert torch.equal(frozen, model(x))  # same normalization, but now the statistics move
    assert int(model[1].num_batches_tracked) == int(state["1.num_batches_tracked"]) + 1


def test_frozen_running_statistics_in_eval_still_reads_them(model):
    model.eval()
    x = torch.randn(6, 3, 5, 5)
    with frozen_running_statistics(model):
        assert torch.equal(model(x), model(x))
        inside = model(x)
    assert torch.equal(inside, model(x))


def test_one_value_a_channel_is_normalized_by_the_running_statistics(model):
    model.eval()
    state, modes = state_of(model), modes_of(model)
    image = torch.randn(1, 3, 5, 5)
    with batch_statistics_where_defined(batchnorm_layers(model)) as running:
        output = model(image)
        assert running == {"4"}, "of the image's 3x3 features each channel has a variance"
        with batch_statistics(model[1]):
            features = model[:4](image)
        torch.testing.assert_close(output, model[4](features))
        model(torch.cat([image, -image]))
        assert model[4].training, "two images have statistics"
    assert_same_state(model, state)
    assert modes_of(model) == modes
    torch.testing.assert_close(output, model[4](features))


@pytest.mark.parametrize("context", [batch_statistics, frozen_running_statistics])
def test_restored_after_an_exception(model, context):
    model.eval()
    model[4].train()  # mixed modes come back as they were
    state, modes = state_of(model), modes_of(model)
    with pytest.raises(ValueError, match="more than 1 value"), context(model):
        model[4](torch.randn(1, 36))
    assert modes_of(model) == modes
    assert_same_state(model, state)


def test_layers_instead_of_the_model(model):
    model.eval()
    x = torch.randn(6, 3, 5, 5)
    with batch_statistics(model):
        expected = model(x)
    with batch_statistics(batchnorm_layers(model).values()):
        assert torch.equal(model(x), expected)
