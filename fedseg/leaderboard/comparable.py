"""What a run must have to be compared in a setting; every difference is a reason in words.

Where published numbers have a protocol, every field of the run's must have its value.

What "the same split" means depends on the setting: where split files are known, clients and images
must be those, by checksum; elsewhere the recipe must be the same (kind of partition, concentration,
number of clients), whatever the seed of the draw. The released splits of CIFAR are asked for once
their checksums are in ``reference/known_data.json``.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from fedseg.leaderboard.benchmarks import DATASETS, MODELS, Setting
from fedseg.leaderboard.methods import RELEASED
from fedseg.metric_names import Metric
from fedseg.runs.schema import DataEntry, Results

RECIPE_DEFAULTS = {  # a config may omit them
    "PachinkoPartition": {"alpha": 0.1, "beta": 10.0},
    "DirichletClassPartition": {"min_samples": 10},
}
CENTRALIZED = "SinglePartition"
LONGEST = 200  # characters of two values that a reason shows


def reasons_against(results: Results, setting: Setting) -> tuple[str, ...]:
    """Why a run cannot be compared in a setting; empty if it can."""
    return (
        *(_synthetic(results, setting) or _other_data(results, setting)),
        *_other_split(results, setting),
        *_other_training(results, setting),
        *_other_protocol(results, setting),
    )


def reasons_of_no_split(results: Results, setting: Setting) -> tuple[str, ...]:
    """Why a run cannot be compared in any setting of its data set, of which ``setting`` is one."""
    partition = results.train.partition
    if partition.get("type") == CENTRALIZED:
        reasons = _other_split(results, setting)[:1]
    else:
        words = [f"{results.train.clients} clients", str(partition.get("type", ""))]
        words += [f"{k} {_short(v)}" for k, v in partition.items() if k in ("alpha", "beta")]
        title = DATASETS[setting.dataset]["title"]
        reasons = [f"other split: {', '.join(filter(None, words))}, as in no benchmark of {title}"]
    return (*_synthetic(results, setting), *reasons)


def distance(results: Results, setting: Setting) -> tuple[int, ...]:
    """How far a run is from a setting: its differences, the gravest first."""
    return (
        not same_split(results, setting),
        results.train.clients != setting.n_clients,
        model_name(results) != setting.model,
        results.clients_per_round.max != setting.clients_per_round,
        len(other_fields(results, setting)),
        results.rounds != setting.rounds,
    )


def same_split(results: Results, setting: Setting) -> bool:
    """Whether a run's recipe, checksum or path of the split is the setting's; images may differ."""
    if setting.recipe or not setting.place:
        return not _other_recipe(results, setting)
    return (
        results.train.partition_sha256 in setting.known["train"]["partition_sha256"]
        or f"/{setting.place}/" in f"/{results.train.split}/"
    )


def model_name(results: Results) -> str:
    """A run's network as the published records name it, or its class."""
    return MODELS.get(results.model.type, results.model.network or results.model.type)


# ---------------------------------------------------------------- data


def _synthetic(results: Results, setting: Setting) -> list[str]:
    title = DATASETS[setting.dataset]["title"]
    found = [f"synthetic data: the images are rendered, they are not {title}"]
    return found if results.synthetic else []


def _other_data(results: Results, setting: Setting) -> Iterator[str]:
    """Other images than the data set's."""
    data, known = DATASETS[setting.dataset], setting.known
    train = {"samples": data.get("train_samples"), **known.get("train", {})}
    if train["samples"] is not None and results.protocol.get("mirror_images"):
        train["samples"] *= 2  # mirrored ones count, too
    yield from _other_images("training images", results.train, train)
    for domain in setting.domains:
        test, words = results.tests.get(domain), f"test images ({domain})"
        if test is None:
            yield f"no test set {domain!r}"
            continue
        found = {"samples": data.get("test_samples"), **known.get("test", {}).get(domain, {})}
        yield from _other_images(words, test, found)
        if setting.test_steps is not None and list(test.steps) != list(setting.test_steps):
            yield f"{words} are prepared in another way"


def _other_images(words: str, entry: DataEntry, known: Mapping[str, Any]) -> list[str]:
    """Another number of images, or another checksum."""
    if known["samples"] not in (None, entry.samples):
        return [f"other {words}: {entry.samples} instead of {known['samples']}"]
    for name in ("content_sha256", "split_checksum"):
        if name in known and getattr(entry, name) is None:
            return [f"the checksum of {words} is not recorded"]
        if name in known and getattr(entry, name) not in known[name]:
            return [f"other {words}: the checksum differs"]
    return []


# ---------------------------------------------------------------- split


def _other_split(results: Results, setting: Setting) -> list[str]:
    train = results.train
    if train.partition.get("type") == CENTRALIZED:
        return ["centralized training: one client holds every image"]
    reasons = _other_recipe(results, setting)
    known = setting.known.get("train", {}).get("partition_sha256")
    if train.clients != setting.n_clients:
        reasons.append(f"other split: {train.clients} clients instead of {setting.n_clients}")
    elif known is not None and train.partition_sha256 not in known:
        reasons.append("other split: the checksum is not the published one's")
    return reasons


def _other_recipe(results: Results, setting: Setting) -> list[str]:
    known = setting.known.get("train", {}).get("partition_sha256", ())
    if not setting.recipe or results.train.partition_sha256 in known:
        return []
    kind = results.train.partition.get("type")
    released = setting.released_split and kind == RELEASED
    if kind != setting.recipe["type"] and not released:
        return [f"other split: {kind} instead of {setting.recipe['type']}"]
    defaults = RECIPE_DEFAULTS.get(kind, {})
    partition = {**defaults, **results.train.partition}
    return [
        f"other split: {key} {_short(partition.get(key))} instead of {_short(wanted)}"
        for key, wanted in {**defaults, **setting.recipe}.items()
        if key != "type" and partition.get(key) != wanted
    ]


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


# ---------------------------------------------------------------- training and evaluation


def _other_training(results: Results, setting: Setting) -> Iterator[str]:
    model = model_name(results)
    if model != setting.model:
        yield f"other model: {model} instead of {setting.model}"
    if results.load_from is not None:
        yield f"trained before: it begins with the weights of {results.load_from} (load_from)"
    each, wanted = str(results.clients_per_round), str(setting.clients_per_round)
    if each != wanted:
        yield f"other participation: {each} clients per round instead of {wanted}"
    window = results.last_rounds
    if results.rounds != setting.rounds:  # with other rounds, the window is another anyway
        fewer = "fewer" if results.rounds < setting.rounds else "more"
        yield f"{fewer} rounds: {results.rounds} instead of {setting.rounds}"
    elif setting.window not in (None, window.rounds):
        yield f"other metric: mean over the last {window.rounds} rounds instead of {setting.window}"
    elif setting.window is not None:
        fewest, of = _fewest_evaluations(results, setting)
        if fewest < setting.evaluations:
            yield (
                f"too few evaluations: {fewest}{of} in the last {window.rounds} rounds, at "
                f"least {setting.evaluations} are needed"
            )


def _fewest_evaluations(results: Results, setting: Setting) -> tuple[int, str]:
    """How many evaluations in the window gave the metric, and of which domain if not of all."""
    window, metric = results.last_rounds, DATASETS[setting.dataset]["metric"]
    curves = results.curves
    fewest = window.evaluations, ""
    for domain in setting.domains:  # one may be evaluated less often than others
        name = str(Metric.of(domain, metric))
        values = zip(curves.rounds, curves.figures.get(name, ()), strict=False)
        begin = results.rounds - window.rounds
        lacking = sum(value is None for round_, value in values if round_ > begin)
        fewest = min(fewest, (window.evaluations - lacking, f" of {domain}"))
    return fewest


# ---------------------------------------------------------------- protocol


def other_fields(results: Results, setting: Setting) -> dict[str, tuple[Any, Any]]:
    """The fields in which a run's protocol differs: name -> (of the run, wanted)."""
    if setting.protocol is None:
        return {}
    wanted = wanted_protocol(results, setting)
    found = {name: results.protocol.get(name) for name in wanted}
    return {name: (found[name], value) for name, value in wanted.items() if found[name] != value}


def wanted_protocol(results: Results, setting: Setting) -> dict[str, Any]:
    """The protocol that a run must have for its BatchNorm policy and style transfer."""
    policy = None if results.batchnorm is None else str(results.batchnorm.get("type"))
    wanted = {**setting.protocol.values, **setting.protocol.by_policy.get(policy, {})}
    for name, other in setting.protocol.also.items():
        if results.protocol.get(name) == other:
            wanted[name] = other
    for name in ("test_batch_size", "test_drop_last"):
        wanted[name] = dict.fromkeys(setting.domains, wanted[name])
    if policy is None:
        names = [name for name in wanted if name.startswith(("test_", "batchnorm_"))]
        wanted |= dict.fromkeys(names)
    if results.train.style is None:
        wanted["style_bank"] = None
    return wanted


def _other_protocol(results: Results, setting: Setting) -> Iterator[str]:
    told = {
        "network": model_name(results) != setting.model,
        "rounds": results.rounds != setting.rounds,
    }
    for name, (found, wanted) in other_fields(results, setting).items():
        if not told.get(name):
            texts = f": {json.dumps(found)} instead of {json.dumps(wanted)}"
            yield f"other {name.replace('_', ' ')}{texts if len(texts) <= LONGEST else ''}"
