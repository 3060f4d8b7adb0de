"""How far SGD goes: what K_k eta stands for with momentum, and who may not ask."""

import pytest
import torch
import toyalgorithms

from fedseg.algorithms.mean_gradient import check_optimizer, unit_steps
from fedseg.errors import ConfigError

SGD = {"type": "SGD", "lr": 0.1}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"momentum": 0.9},
        {"momentum": 0.9, "nesterov": True},
        {"momentum": 0.5, "dampening": 0.3},
        {"dampening": 0.3},
    ],
)
def test_unit_steps_are_those_of_torch(options):
    w = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = torch.optim.SGD([w], lr=1.0, **options)
    for steps in range(1, 8):
        w.grad = torch.ones_like(w)
        optimizer.step()
        assert unit_steps(optimizer.param_groups[0], steps) == pytest.approx(
            -float(w.detach()), rel=1e-12
        )


def test_one_learning_rate_for_all():
    own = {"custom_keys": {"bias": {"lr_mult": 2.0}}}
    local, _ = toyalgorithms.wrapper({"optimizer": SGD, "paramwise_cfg": own})
    with pytest.raises(ConfigError, match=r"paramwise_cfg: FedCM divides by the learning rate"):
        check_optimizer(local, "FedCM", False)
    decay = {"custom_keys": {"bias": {"decay_mult": 0.0}}}
    local, _ = toyalgorithms.wrapper(
        {"optimizer": {**SGD, "weight_decay": 0.1}, "paramwise_cfg": decay}
    )
    check_optimizer(local, "FedCM", False)


def test_a_learning_rate_of_zero_is_refused():
    local, _ = toyalgorithms.wrapper({"optimizer": {"type": "SGD", "lr": 0.0}})
    with pytest.raises(ConfigError, match=r"optimizer\.lr: FedCM divides by it"):
        check_optimizer(local, "FedCM", False)


def test_momentum_is_warned_of_unless_counted(recwarn):
    local, _ = toyalgorithms.wrapper({"optimizer": {**SGD, "momentum": 0.9}})
    check_optimizer(local, "SCAFFOLD", True)
    plain, _ = toyalgorithms.wrapper({"optimizer": SGD})
    check_optimizer(plain, "SCAFFOLD", False)
    assert not recwarn.list
    with pytest.warns(UserWarning, match=r"SCAFFOLD divides by K_k eta.*0\.9.*count_momentum"):
        check_optimizer(local, "SCAFFOLD", False)
