"""The method of a row: algorithm, averaging, BatchNorm policy, augmentation, in one vocabulary.

The keys are those of the published records, such as ``fedasam``; the configuration of a run is
translated into them, so that its row can stand beside the published one of the same method.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fedseg.leaderboard.reference import Published, read_json
from fedseg.runs.schema import Results

# These perturb weights as a part of the algorithm: a SAM wrapper is their default.
OWN_SAM = ("fedspeed", "fedgamma", "fedsmoo", "naive_fedgloss")
ALIASES = {"naivefedgloss": "naive_fedgloss", "mime": "mime_sgd"}
LOCAL_OPTIMIZERS = {"SAMOptimWrapper": "sam", "ASAMOptimWrapper": "asam"}
BESIDES = ("compression", "privacy", "robust", "attack")  # without a published vocabulary
RELEASED = "ReleasedPartition"  # the papers' own clients, where others draw by the same rule
WEIGHTS = "ClassWeights"  # a local loss that is no algorithm's
BATCHNORM = {"@batchnorm": "fedbn", "@batchnorm.statistics": "silobn"}  # entries of ``personal``
AUGMENTATIONS = {"Mixup": "mixup", "Cutout": "cutout", "LABStyle": "lab", "CFSIStyle": "cfsi"}
NAMES: Mapping[str, str] = read_json("benchmarks.json")["methods"]
"""Key of a method or of a part of it -> its name for the reader."""
VARIANTS: Mapping[str, str] = read_json("benchmarks.json")["variants"]
"""Key of a published variant -> its words for the reader, around its value."""


def name_of(key: str) -> str:
    """A key for the reader; one that is not known stays."""
    return " and ".join(NAMES.get(part, part) for part in key.split(" and "))


@dataclass(frozen=True)
class Method:
    """A method, in the vocabulary of the published records; None is none, or the usual one."""

    algorithm: str  # with its local optimizer, such as "fedasam" or "feddyn_sam"
    averaging: str | None = None
    bn: str | None = None
    augmentation: str | None = None
    server_opt: str | None = None
    extra: str | None = None  # what else differs from the benchmark's default, for the reader

    @property
    def label(self) -> str:
        """For the reader, for example ``FedASAM + SWA + SiloBN, mixup, E = 2``."""
        parts = [self.algorithm_name]
        if self.server_opt is not None:
            parts.append(f"server {name_of(self.server_opt)}")
        parts += [name_of(part) for part in (self.averaging, self.bn) if part]
        more = [name_of(self.augmentation or ""), self.extra]
        return ", ".join([" + ".join(parts), *filter(None, more)])

    @property
    def algorithm_name(self) -> str:
        """The algorithm for the reader, for example ``FedDyn + SAM``."""
        parts = []
        for part in self.algorithm.split("+"):
            base, _, local = part.rpartition("_")
            split = base and part not in NAMES and local in LOCAL_OPTIMIZERS.values()
            parts += [base, local] if split else [part]
        return " + ".join(map(name_of, parts))


def method_of_record(record: Published, local_epochs: int | None) -> Method:
    """The method of a published cell; other ``local_epochs`` than the benchmark's are shown."""
    algorithm, augmentation = record.algorithm, record.augmentation
    if algorithm == "mixup":  # FedAlign lists it among the algorithms
        algorithm, augmentation = "fedavg", "mixup"
    return Method(
        algorithm=algorithm,
        averaging=record.averaging,
        bn=record.bn,
        augmentation=augmentation,
        server_opt=record.server_opt,
        extra=_join(_epochs(record.local_epochs, local_epochs), _variant(record.variant)),
    )


def method_of_results(results: Results, local_epochs: int | None) -> Method:
    """The method of a run; other ``local_epochs`` than the benchmark's are shown."""
    algorithm = _with_local_optimizer(_algorithm(results), component_type(results.optim_wrapper))
    return Method(
        algorithm=algorithm,
        averaging=component_type(results.averaging).lower() or None,
        bn=batchnorm_policy(results.config),
        augmentation=_augmentation(results),
        server_opt=_server_optimizer(results),
        extra=_join(*_extras(results, local_epochs)),
    )


def _extras(results: Results, local_epochs: int | None) -> Iterator[str | None]:
    """What the label says besides; published records have no words for most of it."""
    if results.local_steps is None:
        yield _epochs(results.local_epochs, local_epochs)
    else:
        yield f"{results.local_steps} local steps"
    if results.train.partition.get("type") == RELEASED:
        yield "released split"
    if results.algorithm.get("uniform"):
        yield "1/N"
    if component_type(results.local_loss) == WEIGHTS:
        yield "class weights"
    config = results.config  # which may hold anything
    for key in BESIDES:
        yield component_type(config.get(key))
    personal = [entry for entry in _personal_entries(config) if entry not in BATCHNORM]
    if personal:
        yield f"personal {' '.join(personal)}"
    model = config.get("model")
    if isinstance(model, Mapping) and model.get("lora"):
        yield "LoRA"


def batchnorm_policy(config: Mapping[str, Any]) -> str | None:
    """Which of BatchNorm's tensors stay with the clients, ``silobn`` or ``fedbn``; None: none."""
    entries = _personal_entries(config)
    return next((policy for entry, policy in BATCHNORM.items() if entry in entries), None)


def _personal_entries(config: Mapping[str, Any]) -> list[str]:
    """The entries of ``personal``, which may be anything."""
    personal = config.get("personal")
    entries = personal if isinstance(personal, list) else [personal]
    return [str(entry) for entry in entries if entry]


def _algorithm(results: Results) -> str:
    """The key of a run's algorithm and local loss, without the local optimizer."""
    config = results.algorithm
    key = _key(component_type(config) or "FedAvg")
    server = config.get("server_optim")
    if key == "mime_sgd" and config.get("momentum"):
        key = "mime_sgdm"
    is_sgd = component_type(server) in ("", "SGD") and isinstance(server, Mapping)
    if key == "fedavg" and is_sgd and server.get("momentum"):
        key = "fedavgm"
    losses = []
    local_loss = component_type(results.local_loss)
    if local_loss not in ("", WEIGHTS):
        losses.append(_key(local_loss))
    if results.model.options.get("stochastic_depth") is not None:
        losses.append("stochdepth")
    for loss in losses:
        key = loss if key == "fedavg" else f"{key}+{loss}"
    return key


def _server_optimizer(results: Results) -> str | None:
    """FedAvg's server optimizer; None for SGD, which FedAvg and FedAvgM are named after."""
    server = component_type(results.algorithm.get("server_optim"))
    is_fedavg = _key(component_type(results.algorithm) or "FedAvg") == "fedavg"
    return server.lower() if is_fedavg and server not in ("", "SGD") else None


def _key(cls: str) -> str:
    """A class in the vocabulary of the records; one that they do not know keeps its name."""
    key = ALIASES.get(cls.lower(), cls.lower())
    return key if key in NAMES else cls


def _with_local_optimizer(algorithm: str, wrapper: str) -> str:
    local = LOCAL_OPTIMIZERS.get(wrapper)
    if algorithm == "fedgloss":
        return f"fedgloss_{local or 'sgd'}"
    if local is None or (algorithm in OWN_SAM and local == "sam"):
        return algorithm
    return f"fed{local}" if algorithm == "fedavg" else f"{algorithm}_{local}"


def _augmentation(results: Results) -> str | None:
    """Augmentations beyond crops, flips and scales."""
    types = [component_type(step) for step in (*results.train.steps, results.train.style)]
    return " and ".join(AUGMENTATIONS[name] for name in types if name in AUGMENTATIONS) or None


def _variant(variant: str | None) -> str | None:
    """The difference of a published run from its paper's default, for the reader."""
    words = []
    for part in variant.split(",") if variant else ():
        name, _, value = part.partition("=")
        words.append(VARIANTS.get(name, part).format(value.replace("_", " ").replace(":", ", ")))
    return _join(*words)


def _join(*parts: str | None) -> str | None:
    return ", ".join(filter(None, parts)) or None


def _epochs(epochs: int | None, usual: int | None) -> str | None:
    return f"E = {epochs}" if epochs and epochs != usual else None


def component_type(config: Any) -> str:
    """The class of a component's config; empty if it names none."""
    name = config.get("type") if isinstance(config, Mapping) else None
    return name if isinstance(name, str) else ""
