"""The model as flat vectors: what may not tear a view off, and what lies where."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from fedseg.core.flat import ALIGNMENT_BYTES, FlatModel
from fedseg.core.server import Server
from fedseg.errors import ConfigError
from fedseg.optim.sam import adaptive_mask
from fedseg.runner.run_state import state_dict


class Net(nn.Module):
    """Convolutions, norms, a scalar, a frozen layer, and sizes that leave alignment gaps."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3)
        self.norm = nn.BatchNorm2d(5)
        self.frozen = nn.Conv2d(5, 5, 1)
        self.frozen.requires_grad_(False)
        self.head = nn.Linear(5, 2)
        self.temperature = nn.Parameter(torch.tensor(1.5))
        self.register_buffer("scratch", torch.ones(3), persistent=False)

    def forward(self, x):
        x = self.frozen(torch.relu(self.norm(self.conv(x))))
        return self.head(x.mean((2, 3))) * self.temperature


def make(**kwargs) -> FlatModel:
    torch.manual_seed(0)
    return FlatModel(Net(), **kwargs)


def gaps(flat: FlatModel) -> torch.Tensor:
    mask = torch.ones_like(flat.w, dtype=torch.bool)
    for slot in flat.slots:
        mask[slot.span] = False
    return mask


def backward(flat: FlatModel, seed: int = 1) -> None:
    x = torch.randn(4, 3, 6, 6, generator=torch.Generator().manual_seed(seed))
    flat.model(x).square().sum().backward()


def test_flattening_changes_no_value():
    torch.manual_seed(0)
    plain = Net()
    flat = make()
    for name, tensor in plain.state_dict().items():
        assert torch.equal(flat.model.state_dict()[name], tensor)
    x = torch.randn(2, 3, 6, 6)
    torch.testing.assert_close(plain.eval()(x), flat.model.eval()(x))


def test_views_survive_load_state_dict_and_optimizer_steps():
    flat = make()
    optimizer = torch.optim.Adam(flat.model.parameters(), lr=0.1)
    for seed in range(3):
        flat.grad.zero_()
        backward(flat, seed)
        optimizer.step()
    other = {
        n: torch.randn_like(t) if t.is_floating_point() else t + 7
        for n, t in flat.model.state_dict().items()
    }
    flat.load_state_dict(other)
    flat.check_views()
    for slot in flat.slots:
        assert torch.equal(slot.view(flat.w), other[slot.name])
    for slot in flat.buffer_slots:
        assert torch.equal(slot.view(flat.buffers), other[slot.name])
    for slot in flat.counter_slots:
        assert torch.equal(slot.view(flat.counters), other[slot.name])
    flat.w.fill_(3.0)
    assert all((p == 3).all() for p in flat.model.parameters() if p.requires_grad)


def test_batchnorm_statistics_are_updated_in_the_vector():
    flat = make()
    before = flat.buffers.clone()
    backward(flat)
    assert not torch.equal(flat.buffers, before)
    slots = {s.name: s for s in flat.buffer_slots}
    view = slots["norm.running_mean"].view(flat.buffers)
    assert torch.equal(view, flat.model.norm.running_mean)
    assert flat.model.norm.num_batches_tracked == 1
    flat.buffers.fill_(2.0)
    flat.counters.fill_(3)
    assert (flat.model.norm.running_var == 2).all()
    assert flat.model.norm.num_batches_tracked == 3


def test_a_step_on_the_vector_is_a_step_on_the_model():
    flat, twin = make(), make()
    backward(flat)
    backward(twin)
    with torch.no_grad():
        flat.w.sub_(flat.grad, alpha=0.1)
    torch.optim.SGD(twin.model.parameters(), lr=0.1).step()
    assert torch.equal(flat.w, twin.w)


@pytest.mark.parametrize("channels_last", [True, False])
def test_strides_inside_the_vector(channels_last):
    flat = make(channels_last=channels_last)
    weight = flat.model.conv.weight
    layout = torch.channels_last if channels_last else torch.contiguous_format
    assert weight.is_contiguous(memory_format=layout)
    assert flat.model.conv.weight.grad.stride() == weight.stride()
    assert flat.model.head.weight.is_contiguous()


def test_both_layouts_train_alike():
    one, other = make(channels_last=True), make(channels_last=False)
    for flat in (one, other):
        backward(flat)
        with torch.no_grad():
            flat.w.sub_(flat.grad, alpha=0.1)
    for name, tensor in one.state_dict().items():
        torch.testing.assert_close(tensor, other.state_dict()[name], rtol=1e-4, atol=1e-6)


def test_frozen_parameters_and_scratch_buffers_are_left_out():
    flat = make()
    assert {s.name for s in flat.slots} == {
        *("conv.weight", "conv.bias", "norm.weight", "norm.bias", "head.weight", "head.bias"),
        "temperature",
    }
    assert {s.name for s in flat.buffer_slots} == {"norm.running_mean", "norm.running_var"}
    assert flat.num_parameters == sum(p.numel() for p in flat.model.parameters() if p.requires_grad)
    assert flat.num_buffers == 10
    assert "frozen.weight" in flat.state_dict()


def test_buffers_of_other_types_are_refused():
    model = nn.Linear(3, 2)
    model.register_buffer("mask", torch.ones(2, dtype=torch.bool))
    with pytest.raises(ConfigError, match=r"model: mask must be a float or int64 buffer.*bool"):
        FlatModel(model)


def test_a_model_without_buffers():
    flat = FlatModel(nn.Linear(3, 2))
    assert flat.buffers.numel() == flat.counters.numel() == 0
    assert flat.num_buffers == flat.num_counters == 0
    assert set(flat.state_dict()) == {"weight", "bias"}


def test_alignment_gaps_stay_zero():
    flat = make()
    hole = gaps(flat)
    assert hole.any()
    step = ALIGNMENT_BYTES // flat.w.element_size()
    assert all(slot.offset % step == 0 for slot in flat.slots)
    parameter = nn.Parameter(flat.w)
    parameter.grad = flat.grad
    for make_optimizer in (
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
        lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.1),
        lambda p: torch.optim.RMSprop(p, lr=0.1),
        lambda p: torch.optim.Adagrad(p, lr=0.1),
    ):
        optimizer = make_optimizer([parameter])
        for seed in range(2):
            flat.grad.zero_()
            backward(flat, seed)
            optimizer.step()
    assert not flat.w[hole].any() and not flat.grad[hole].any()
    norm = torch.cat([p.flatten() for p in flat.model.parameters() if p.requires_grad]).norm()
    torch.testing.assert_close(flat.w.norm(), norm)


def test_state_dict_is_plain_and_contiguous():
    flat = make()
    state = flat.state_dict()
    assert list(state) == list(Net().state_dict())
    for tensor in state.values():
        assert type(tensor) is torch.Tensor and tensor.is_contiguous() and not tensor.requires_grad
        assert tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    kept = {n: t.clone() for n, t in state.items()}
    flat.w.add_(1)
    flat.buffers.add_(1)
    assert all(torch.equal(state[n], kept[n]) for n in state), "copies, not views"
    plain = Net()
    plain.load_state_dict(state)


def test_state_dict_of_other_vectors():
    flat = make()
    w, buffers = torch.randn_like(flat.w), torch.rand_like(flat.buffers)
    state = flat.state_dict(w, buffers)
    for slot in flat.slots:
        assert torch.equal(state[slot.name], slot.view(w))
    for slot in flat.buffer_slots:
        assert torch.equal(state[slot.name], slot.view(buffers))


class Tied(nn.Module):
    """One matrix under two names, and one norm module used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(4, 4, bias=False)
        self.decode = nn.Linear(4, 4, bias=False)
        self.decode.weight = self.encode.weight
        self.norm = nn.BatchNorm1d(4)
        self.again = self.norm

    def forward(self, x):
        return self.decode(self.again(self.norm(self.encode(x))))


def test_shared_parameters_are_one_slot_with_two_names():
    flat = FlatModel(Tied())
    assert [s.name for s in flat.slots] == ["encode.weight", "norm.weight", "norm.bias"]
    flat.model(torch.randn(8, 4)).square().sum().backward()
    flat.check_views()
    assert flat.model.decode.weight.data_ptr() == flat.model.encode.weight.data_ptr()


@pytest.mark.parametrize(("net", "shape"), [(Net, (2, 3, 6, 6)), (Tied, (8, 4))])
def test_calling_the_model_with_another_vector(net, shape):
    flat, x = FlatModel(net().eval()), torch.randn(shape)
    other, before = torch.randn_like(flat.w), flat.w.clone()
    found = torch.func.functional_call(flat.model, flat.views(other), x, tie_weights=False)
    assert torch.equal(flat.w, before)
    flat.check_views()
    flat.w.copy_(other)
    assert torch.equal(found, flat.model(x))


def test_state_dict_of_another_vector_with_shared_parameters():
    """A checkpoint holds the server's vector, while the model still holds the last client's."""
    flat = FlatModel(Tied())
    server = Server(flat, 1)
    for slot in flat.slots:
        slot.view(flat.w).normal_()
    for slot in flat.buffer_slots:
        slot.view(flat.buffers).uniform_()
    server.counters.fill_(7)
    state = state_dict(SimpleNamespace(flat=flat, server=server), server.w, server.buffers)
    assert state["again.num_batches_tracked"] == state["norm.num_batches_tracked"] == 7
    assert torch.equal(state["decode.weight"], state["encode.weight"])
    assert torch.equal(state["again.running_mean"], state["norm.running_mean"])
    flat.load_state_dict(state)
    assert torch.equal(flat.w, server.w) and torch.equal(flat.buffers, server.buffers)


def test_backward_replaces_the_gradient():
    flat, twin = make(), make()
    flat.grad.fill_(7)
    x = torch.randn(4, 3, 6, 6, generator=torch.Generator().manual_seed(1))
    flat.backward(flat.model(x).square().sum())
    backward(twin)  # into zeros
    flat.check_views()
    for slot in flat.slots:
        assert torch.equal(slot.view(flat.grad), slot.view(twin.grad)), slot.name
    assert float(twin.grad.norm()) > 0


def test_backward_gives_zeros_where_the_loss_does_not_reach():
    flat = FlatModel(nn.ModuleDict({"used": nn.Linear(3, 1), "unused": nn.Linear(3, 1)}))
    flat.grad.fill_(7)
    flat.backward(flat.model["used"](torch.ones(1, 3)).sum())
    gradients = {slot.name: slot.view(flat.grad).tolist() for slot in flat.slots}
    assert gradients["used.weight"] == [[1, 1, 1]] and gradients["used.bias"] == [1]
    assert gradients["unused.weight"] == [[0, 0, 0]] and gradients["unused.bias"] == [0]
    flat.check_views()


def test_backward_that_fails_leaves_the_gradients_in_the_vector():
    flat = make()
    with pytest.raises(RuntimeError):
        flat.backward(torch.zeros(()))
    flat.check_views()


def test_check_views_names_what_was_torn_off():
    flat = make()
    flat.check_views()
    flat.model.zero_grad(set_to_none=True)
    with pytest.raises(RuntimeError, match=r"temperature .*zero_grad"):
        flat.check_views()
    flat = make()
    flat.model.head.weight.data = flat.model.head.weight.data.clone()
    with pytest.raises(RuntimeError, match=r"head\.weight"):
        flat.check_views()
    flat = make()
    flat.model.norm.running_mean = flat.model.norm.running_mean.clone()
    with pytest.raises(RuntimeError, match=r"norm\.running_mean"):
        flat.check_views()


def test_float64_is_kept():
    flat = FlatModel(Net().double())
    assert flat.w.dtype == flat.grad.dtype == flat.buffers.dtype == torch.float64
    assert all(t.dtype == torch.float64 for t in flat.state_dict().values() if t.dim())


def test_nothing_to_train_and_mixed_dtypes():
    frozen = Net()
    frozen.requires_grad_(False)
    with pytest.raises(ConfigError, match="no trainable parameter"):
        FlatModel(frozen)
    mixed = Net()
    mixed.head.double()
    with pytest.raises(ConfigError, match="mix dtypes"):
        FlatModel(mixed)


def test_adaptive_mask_scales_weights_and_norm_scales_only():
    flat = make()
    mask = adaptive_mask(flat)
    scaled = {s.name for s in flat.slots if mask[s.span].all()}
    plain = {s.name for s in flat.slots if not mask[s.span].any()}
    assert scaled == {"conv.weight", "norm.weight", "head.weight"}
    assert plain == {"conv.bias", "norm.bias", "head.bias", "temperature"}
    assert not mask[gaps(flat)].any()
