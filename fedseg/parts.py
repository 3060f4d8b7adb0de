"""Parts of a model, by the names of their parameters and buffers."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from torch import nn

from fedseg.errors import ConfigError

HEAD, BODY = "@head", "@body"
# the layers that give the logits, as torchvision, timm, MMSegmentation and this suite name them
HEADS = ("classifier", "conv_seg", "fc", "head")


def part_names(model: nn.Module, patterns: str | Sequence[str], field: str) -> set[str]:
    """All names of the parameters and buffers that one of the patterns stands for.

    Args:
        patterns: names, or names of modules for all that is in them, with ``*``, ``?`` and ``[]``
            as in file names; ``@head`` are the layers that give the logits, ``@body`` is the rest.
        field: of the config, for the message.

    Raises:
        ConfigError: a pattern stands for nothing.
    """
    shared = {"remove_duplicate": False}
    named = [*model.named_parameters(**shared), *model.named_buffers(**shared)]
    tensors = {n: t for n, t in named if "data_preprocessor" not in n.split(".")}
    chosen: set[int] = set()
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        if pattern in (HEAD, BODY):
            head = _head(model)
            matching = {n for n in tensors if n.startswith(head) == (pattern == HEAD)}
        else:
            matching = {n for n in tensors if any(fnmatchcase(p, pattern) for p in _prefixes(n))}
        if not matching:
            children = ", ".join(name for name, _ in model.named_children())
            raise ConfigError(
                f"{field}: {pattern!r} matches no parameter or buffer of {type(model).__name__}; "
                f"its modules: {children or 'none'} ({HEAD} and {BODY} stand for the layers that "
                "give the logits and for all others)"
            )
        chosen |= {id(tensors[name]) for name in matching}
    return {name for name, tensor in tensors.items() if id(tensor) in chosen}


def _prefixes(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _head(model: nn.Module) -> tuple[str, ...]:
    """Prefixes of the layers that give the logits; without one of their names the last layer."""
    layers = [n for n, m in model.named_modules() if n and any(True for _ in m.parameters(False))]
    layers = list(dict.fromkeys(re.sub(r"\.(base_layer|lora_[AB]\.\w+)$", "", n) for n in layers))
    named = [name for name in layers if name.rpartition(".")[2] in HEADS]
    return tuple(f"{name}." for name in named or layers[-1:])
