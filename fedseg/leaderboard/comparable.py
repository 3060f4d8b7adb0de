"""Whether a run is comparable in the setting that its config names; every difference is a reason.

The protocol of a run's config must be the setting's. Where checksums of data are known, images and
clients must be those; elsewhere the config says how clients are drawn, whatever the seed.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from fedseg.config.roles import PROTOCOL, select
from fedseg.leaderboard.benchmarks import DATASETS, Benchmark, Setting, settings
from fedseg.leaderboard.methods import AUGMENTATIONS, batchnorm_policy, component_type
from fedseg.metric_names import Metric
from fedseg.runs.history import Participation
from fedseg.runs.schema import DataEntry, Results

CENTRALIZED = "SinglePartition"
CORRUPTED = "corrupted"
CORRUPTED_SAMPLES = 19 * 5 * 10_000  # corruptions, severities, images
POISSON = "PoissonSampler"
NOT_SET = "not set"  # in place of a value that a config omits
LONGEST = 200  # characters of two values that a reason shows
PARTITION = "train_dataloader.partition."
TRAIN_STEPS = "train_dataloader.transforms"
STYLE = "train_dataloader.dataset.style.type"
PARTICIPANTS = "client_sampler.clients_per_round"
ROUNDS = "train_cfg.max_rounds"
WINDOW = "train_cfg.val_last_rounds"
# of the keys that differ, those that say most of a run come first
FIRST_KEYS = (
    ROUNDS,
    "model.type",
    PARTICIPANTS,
    "train_cfg.local_epochs",
    "train_dataloader.batch_size",
)
# what a config may omit, besides empty lists
DEFAULTS: Mapping[str, Any] = {
    "dtype": "float32",
    "load_from": None,
    "train_cfg.amp": False,
    "train_cfg.local_epochs": 1,
    "train_dataloader.dataset.mirror": False,
    "train_dataloader.drop_last": False,
    "train_dataloader.shuffle": True,
    "train_dataloader.partition.alpha": 0.1,
    "train_dataloader.partition.balanced": False,
    "train_dataloader.partition.beta": 10.0,
    "train_dataloader.partition.min_samples": 10,
    "val_dataloader.*.drop_last": False,
    "val_evaluator.ignore_index": 255,
}
# pattern of a key -> why no setting compares it
NEVER_COMPARED = {
    "train_cfg.val_last_interval": "the results say how many evaluations there were",
    "model.weights.*": "initial weights may come from anywhere",
}


@dataclass(frozen=True)
class ComparedRun:
    """A run with its protocol, which is compared with several settings."""

    results: Results

    @cached_property
    def protocol(self) -> dict[str, Any]:
        """As of :func:`protocol_of`."""
        return protocol_of(self.results.config)

    @cached_property
    def parts(self) -> dict[str, Any]:
        """As of :func:`deciding_parts`."""
        return deciding_parts(self.results.config)


@dataclass(frozen=True)
class Comparison:
    """A run and the setting that its config names."""

    setting: Setting | None  # None: the name is of no setting with a benchmark
    reasons: tuple[str, ...]  # against comparing them, the gravest first; empty: comparable


def compare(results: Results) -> Comparison:
    """Compare a run with the setting that its config names.

    A name may stand for several settings, which differ in an option (``cifar10_a0`` with 5, 10 or
    20 clients a round): the one that the run differs least from counts.
    """
    named = [setting for setting in settings() if results.setting in setting.configs]
    if not named:
        if results.setting is None:
            return Comparison(None, ("its config names no setting",))
        reason = f"there are no published numbers for its setting, {results.setting}"
        return Comparison(None, (reason,))
    run = ComparedRun(results)
    comparisons = [Comparison(setting, tuple(find_reasons(run, setting))) for setting in named]

    def distance(comparison: Comparison) -> tuple[bool, int]:
        return other_split(run, comparison.setting) is not None, len(comparison.reasons)

    return min(comparisons, key=distance)


def find_reasons(run: ComparedRun, setting: Setting) -> list[str]:
    """Find the reasons against comparing a run in a setting: a decisive one alone, or all."""
    results = run.results
    decisive = (
        other_data_set(results, setting)
        or rendered(results, setting)
        or centralized(results)
        or other_split(run, setting)
    )
    if decisive is not None:
        return [decisive]
    domains = [domain for domain in setting.domains if domain in results.tests]
    differences = protocol_differences(run, setting, domains)
    return [
        *other_images(results, setting),
        *describe(differences, setting),
        *other_participation(results, setting, differences),
        *too_few_evaluations(results, setting, differences),
    ]


def find_reasons_against_table(results: Results, table: Benchmark) -> list[str]:
    """Find the reasons against a further table of a setting in which the run is comparable."""
    test = results.tests.get(CORRUPTED)
    if Metric.parse(table.columns[0].metric).set != CORRUPTED or test is None:
        return []
    if test.samples != CORRUPTED_SAMPLES:
        return [f"other corruptions: {test.samples} images instead of {CORRUPTED_SAMPLES}"]
    differences = protocol_differences(ComparedRun(results), table.setting, [CORRUPTED])
    return list(describe(differences, table.setting))


# ---------------------------------------------------------------- decisive reasons


def other_data_set(results: Results, setting: Setting) -> str | None:
    """Say if the run trained on another data set than the setting whose name it has."""
    expected = DATASETS[setting.dataset]["class"]
    if results.train.dataset == expected:
        return None
    return f"other data set: {results.train.dataset}, not {expected}"


def rendered(results: Results, setting: Setting) -> str | None:
    """Say if any images of the run are rendered."""
    if not results.synthetic:
        return None
    title = DATASETS[setting.dataset]["title"]
    return f"synthetic data: the images are rendered, they are not {title}"


def centralized(results: Results) -> str | None:
    """Say if there are no clients."""
    partition = results.train.partition or {}
    if partition.get("type") != CENTRALIZED:
        return None
    return "centralized training: one client has every image"


def other_split(run: ComparedRun, setting: Setting) -> str | None:
    """Say if the clients have other images: by their checksum, or by the rule of the config."""
    train = run.results.train
    if train.clients != setting.n_clients:
        return f"other split: {train.clients} clients instead of {setting.n_clients}"
    known = setting.known.get("train", {}).get("partition_sha256", ())
    if train.partition_sha256 in known:
        return None
    if known:
        return "other split: the checksum is not the published one's"
    differences = protocol_differences(run, setting, ())
    partition = {key: pair for key, pair in differences.items() if key.startswith(PARTITION)}
    difference = next(describe(partition, setting), None)
    return None if difference is None else f"other split: {difference}"


# ---------------------------------------------------------------- protocol


def deciding_parts(config: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a method that decide which other values belong to its protocol, by name."""
    return {"bn": batchnorm_policy(config), "style": select(config).get(STYLE)}


def protocol_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten the protocol of a complete, plain config: values by key, without defaults.

    A list of components is one value; of training transforms, augmentations belong to the method.
    """
    protocol: dict[str, Any] = {}
    lists: dict[str, dict[str, Any]] = {}
    for key, value in select(config, PROTOCOL).items():
        in_list = re.fullmatch(r"(.+?)\.(\d+)(?:\.(.+))?", key)
        if in_list is None:
            protocol[key] = value
            continue
        name, place, option = in_list.groups()
        components = lists.setdefault(name, {})
        if option is None:
            components[place] = value
        else:
            components.setdefault(place, {})[option] = value
    for name, components in lists.items():
        protocol[name] = list(components.values())
    if TRAIN_STEPS in lists:
        steps = protocol[TRAIN_STEPS]
        protocol[TRAIN_STEPS] = [s for s in steps if component_type(s) not in AUGMENTATIONS]
    return {key: value for key, value in protocol.items() if not _is_default(key, value)}


def _is_default(key: str, value: Any) -> bool:
    if value in ([], {}):
        return True
    return any(fnmatchcase(key, name) and value == usual for name, usual in DEFAULTS.items())


def keys_not_compared(setting: Setting, config: Mapping[str, Any]) -> dict[str, str]:
    """Name the keys of a protocol that are not compared in a setting: pattern -> why.

    Args:
        setting: the setting.
        config: of the run; privacy and BatchNorm policies matter.
    """
    known = setting.known.get("train", {})
    keys = dict(NEVER_COMPARED)
    for key in setting.free:
        keys[key] = "no source states it"
    if setting.window is None:
        keys[WINDOW] = "the last evaluation is reported"
    if "partition_sha256" in known or "content_sha256" in known:
        keys["train_dataloader.dataset.split"] = "a checksum says which images these are"
    if "partition_sha256" in known:
        keys[f"{PARTITION}*"] = "a checksum says which clients these are"
    for domain in setting.known.get("test", {}):
        for name in ("split", "users"):
            key = f"val_dataloader.{domain}.dataset.{name}"
            keys[key] = "a checksum says which images these are"
    if batchnorm_policy(config) is None:
        keys["val_dataloader.*.batch_size"] = "predictions do not depend on it"
    if component_type(config.get("client_sampler")) == POISSON:
        keys["client_sampler.type"] = "privacy needs clients that are drawn one by one"
    return keys


def protocol_differences(
    run: ComparedRun, setting: Setting, domains: Collection[str]
) -> dict[str, tuple[Any, Any]]:
    """Find the keys of the protocol that differ: key -> (the run's value, the setting's).

    Args:
        run: the run.
        setting: what it is compared with; of its variants the one that the run's method has,
            or else that with the fewest differences.
        domains: test sets whose keys are compared.
    """
    skipped = keys_not_compared(setting, run.results.config)

    def differing(expected: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        pairs = {}
        for key in {**expected, **run.protocol}:
            pair = (run.protocol.get(key, NOT_SET), expected.get(key, NOT_SET))
            if pair[0] != pair[1] and _is_compared(key, skipped, domains):
                pairs[key] = pair
        return pairs

    expected = setting.protocol
    for variant in setting.variants:
        if any(run.parts[name] != part for name, part in variant["when"].items()):
            continue
        other = {**expected, **variant["change"]}
        if variant["when"] or len(differing(other)) < len(differing(expected)):
            expected = other
    return differing(expected)


def _is_compared(key: str, skipped: Collection[str], domains: Collection[str]) -> bool:
    if key.startswith("val_dataloader.") and key.split(".")[1] not in domains:
        return False
    return not any(fnmatchcase(key, pattern) for pattern in skipped)


def describe(differences: Mapping[str, tuple[Any, Any]], setting: Setting) -> Iterator[str]:
    """Describe differing keys: ``train_cfg.max_rounds: 300, in idda_rainy 1600``."""
    owners = [key.removesuffix("type") for key in differences if key.endswith(".type")]
    first = [key for key in FIRST_KEYS if key in differences]
    for key in dict.fromkeys((*first, *differences)):
        if any(key.startswith(owner) and key != f"{owner}type" for owner in owners):
            continue  # another class has other options
        value, expected = (v if v is NOT_SET else json.dumps(v) for v in differences[key])
        text = f": {value}, in {setting.id} {expected}"
        yield f"{key}{text}" if len(text) <= LONGEST else f"{key} is not as in {setting.id}"


# ---------------------------------------------------------------- images, clients, evaluations


def other_images(results: Results, setting: Setting) -> Iterator[str]:
    """Say which of the images are others, or cannot be told."""
    data, known = DATASETS[setting.dataset], setting.known
    train = {"samples": data.get("train_samples"), **known.get("train", {})}
    if setting.protocol.get("train_dataloader.dataset.mirror"):
        train["samples"] *= 2  # mirrored ones count, too
    yield from _other_images("training images", results.train, train)
    for domain in setting.domains:
        test = results.tests.get(domain)
        if test is None:
            yield f"no test set {domain!r}"
            continue
        expected = {"samples": data.get("test_samples"), **known.get("test", {}).get(domain, {})}
        yield from _other_images(f"test images ({domain})", test, expected)


def _other_images(words: str, entry: DataEntry, known: Mapping[str, Any]) -> list[str]:
    if known["samples"] not in (None, entry.samples):
        return [f"other {words}: {entry.samples} instead of {known['samples']}"]
    for name in ("content_sha256", "split_checksum"):
        if name in known and getattr(entry, name) is None:
            return [f"the checksum of {words} is not recorded"]
        if name in known and getattr(entry, name) not in known[name]:
            return [f"other {words}: the checksum differs"]
    if entry.unofficial and "content_sha256" not in known:
        return [f"{words}: from .npz files, not verified to be the official ones"]
    return []


def clients_per_round(results: Results) -> Participation:
    """The number of clients in a round; of those drawn one by one, the number on average."""
    sampler = results.config.get("client_sampler") or {}
    if sampler.get("type") != POISSON:
        return results.clients_per_round
    count = sampler["clients_per_round"]
    count = results.train.clients if count == "all" else max(1, round(count))
    return Participation(min=count, max=count)


def other_participation(
    results: Results, setting: Setting, differences: Collection[str]
) -> Iterator[str]:
    """Say if rounds had another number of clients than the config asks for."""
    took = clients_per_round(results)
    if PARTICIPANTS not in differences and str(took) != str(setting.clients_per_round):
        yield f"other participation: {took} clients per round, not {setting.clients_per_round}"


def too_few_evaluations(
    results: Results, setting: Setting, differences: Collection[str]
) -> Iterator[str]:
    """Say if the mean over the last rounds is of too few evaluations."""
    if setting.window is None or ROUNDS in differences or WINDOW in differences:
        return
    window, curves = results.last_rounds, results.curves
    counts = {"": window.evaluations}
    for domain in setting.domains:  # one may be evaluated less often than others
        name = str(Metric.of(domain, DATASETS[setting.dataset]["metric"]))
        rounds = zip(curves.rounds, curves.figures.get(name, ()), strict=False)
        begin = results.rounds - window.rounds
        lacking = sum(value is None for number, value in rounds if number > begin)
        counts[f" of {domain}"] = window.evaluations - lacking
    words, fewest = min(counts.items(), key=lambda item: item[1])
    if fewest < setting.evaluations:
        yield (
            f"too few evaluations: {fewest}{words} in the last {window.rounds} rounds, at "
            f"least {setting.evaluations} are needed"
        )
