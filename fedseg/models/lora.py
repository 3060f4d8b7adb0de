"""Low-rank adapters (LoRA) in any network, by ``peft``: what is trained beside frozen weights.

Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", ICLR 2022: a layer's weight is
``W0 + (alpha / r) B A``; A is drawn, B begins at zero. A convolution's A has its kernel, its B is
1x1, so that ``B A`` of the flattened weights is the change of its weight.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import PositiveInt
from torch import Tensor, nn

from fedseg.config.arguments import Positive, check_arguments
from fedseg.errors import ConfigError
from fedseg.parts import HEAD, part_names

ADAPTER = re.compile(r"\.lora_[AB]\.\w+\.")


@dataclass(frozen=True)
class LoRA:
    """Adapters of a model's linear and convolution layers.

    Args:
        r: rank.
        alpha: the change of a weight is scaled by ``alpha / r``.
        targets: names of layers, or patterns of names as ``personal`` takes; None: every layer that
            fits, besides the head. Layers that do not fit have groups, dilation or another padding
            than zeros, or belong to torch's attention.
        fixed_A: A stays as it was drawn, for everybody the same, and only B is trained and sent.
    """

    r: PositiveInt = 8
    alpha: Positive = 16.0
    targets: str | Sequence[str] | None = None
    fixed_A: bool = False

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "LoRA":
        """Build from a config's ``model.lora``."""
        check_arguments(cls, config, "model.lora")
        return cls(**config)

    def add_to(self, model: nn.Module, frozen: Collection[str] = ()) -> None:
        """Add the adapters in place, and freeze all other parameters but those of the head.

        A head that is a target has adapters as well, and its own weights are frozen. BatchNorm's
        statistics go on being collected where ``frozen``, names of the config's, does not say else.
        """
        try:
            from peft import LoraConfig, inject_adapter_in_model
        except ImportError as error:
            raise ConfigError(
                "model.lora: needs the extra 'lora': pip install 'fedseg[lora]'"
            ) from error
        head = part_names(model, HEAD, "model.lora")
        trained = {
            name
            for name, parameter in model.named_parameters()
            if parameter.requires_grad and name not in frozen
        }
        targets = self._targets(model, head)
        config = LoraConfig(
            r=self.r,
            lora_alpha=self.alpha,
            target_modules="|".join(map(re.escape, targets)),  # a list would match ends of names
        )
        inject_adapter_in_model(config, model)
        for name, parameter in model.named_parameters():
            if ADAPTER.search(name):
                parameter.requires_grad_(".lora_B." in name or not self.fixed_A)
            else:
                parameter.requires_grad_(name in head & trained)

    def _targets(self, model: nn.Module, head: Collection[str]) -> list[str]:
        """The names of the layers that get adapters.

        Raises:
            ConfigError: a pattern of ``targets`` matches no suitable layer, or there is none.
        """
        suitable = _suitable_layers(model)
        if self.targets is None:
            targets = [name for name in suitable if f"{name}.weight" not in head]
            if not targets:
                raise ConfigError(
                    f"model.lora: {type(model).__name__} has no suitable layer besides its head: "
                    "name linear or convolution layers in model.lora.targets"
                )
            return targets
        patterns = [self.targets] if isinstance(self.targets, str) else self.targets
        if not patterns:
            raise ConfigError("model.lora.targets: is empty: name layers, or leave it out")
        targets = []
        for pattern in patterns:
            parts = part_names(model, pattern, "model.lora.targets")
            matching = [name for name in suitable if f"{name}.weight" in parts]
            if not matching:
                raise ConfigError(
                    f"model.lora.targets: {pattern!r} matches no linear layer and no convolution "
                    "without groups, dilation and non-zero padding modes: name other layers"
                )
            targets += matching
        return list(dict.fromkeys(targets))  # each once


def _suitable_layers(model: nn.Module) -> list[str]:
    """The names of the layers that can have adapters; those of torch's attention are not called."""
    modules = dict(model.named_modules())
    names = []
    for name, layer in modules.items():
        parent = modules.get(name.rpartition(".")[0])
        if _can_have_adapters(layer) and not isinstance(parent, nn.MultiheadAttention):
            names.append(name)
    return names


def _can_have_adapters(layer: nn.Module) -> bool:
    """True of linear layers, and of convolutions without groups, dilation or other padding."""
    if isinstance(layer, nn.Linear):
        return True
    if not isinstance(layer, nn.Conv2d):
        return False
    return layer.groups == 1 and layer.padding_mode == "zeros" and set(layer.dilation) == {1}


def with_adapters(state: Mapping[str, Tensor], model: nn.Module) -> Mapping[str, Tensor]:
    """The state dict of a network without adapters for one that has them, as they are there."""
    expected = model.state_dict()
    adapters = {name: tensor for name, tensor in expected.items() if ADAPTER.search(name)}
    if not adapters or adapters.keys() & state.keys():
        return state
    names = {name.replace(".base_layer.", "."): name for name in expected}
    return {names.get(name, name): tensor for name, tensor in state.items()} | adapters
