"""Comparability of a run in a setting; every difference is a reason in words.

The protocol of a run's config must be the setting's. Where checksums of data are known, images and
clients must be those; elsewhere the config says how clients are drawn, whatever the seed. The
released splits of CIFAR are asked for once their checksums are in ``reference/known_data.json``.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fedseg.config.roles import PROTOCOL, select
from fedseg.leaderboard.benchmarks import DATASETS, MODELS, Benchmark, Setting
from fedseg.leaderboard.methods import AUGMENTATIONS, batchnorm_policy, component_type
from fedseg.metric_names import Metric
from fedseg.runs.history import Participation
from fedseg.runs.schema import DataEntry, Results

CENTRALIZED = "SinglePartition"
CORRUPTED, CORRUPTED_SAMPLES = "corrupted", 19 * 5 * 10_000  # corruptions, severities, images
NOT_SET = "not set"  # in place of a value that a config omits
LONGEST = 200  # characters of two values that a reason shows
SPLIT, PARTITION = "train_dataloader.dataset.split", "train_dataloader.partition."
CLIENTS = f"{PARTITION}num_clients"
POISSON = "PoissonSampler"  # which privacy needs
PARTICIPANTS, ROUNDS = "client_sampler.clients_per_round", "train_cfg.max_rounds"
WINDOW = "train_cfg.val_last_rounds"
# of the keys that differ, what says most of a run; the others follow
DECISIVE = (
    ROUNDS,
    "model.type",
    CLIENTS,
    PARTICIPANTS,
    "train_cfg.local_epochs",
    "train_dataloader.batch_size",
)
# The results say how many evaluations there were; initial weights may come from anywhere.
UNCOMPARED = ("train_cfg.val_last_interval", "model.weights.")
DEFAULTS: Mapping[str, Any] = {  # what a config may omit, besides empty lists
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
TRAIN_STEPS = "train_dataloader.transforms"
STYLE = "train_dataloader.dataset.style.type"


def deciding_parts(config: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a method that decide which other values belong to its protocol, by name."""
    return {"bn": batchnorm_policy(config), "style": select(config).get(STYLE)}


def protocol_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a complete, plain config by key, without defaults.

    A list of components is one value; of training transforms, augmentations belong to the method.
    """
    protocol: dict[str, Any] = {}
    lists: dict[str, dict[str, Any]] = {}
    for key, value in select(config, PROTOCOL).items():
        in_list = re.fullmatch(r"(.+?)\.(\d+)(?:\.(.+))?", key)
        if key.startswith(UNCOMPARED):
            continue
        if in_list is None:
            protocol[key] = value
        elif in_list[3] is None:
            lists.setdefault(in_list[1], {})[in_list[2]] = value
        else:
            lists.setdefault(in_list[1], {}).setdefault(in_list[2], {})[in_list[3]] = value
    protocol |= {name: list(components.values()) for name, components in lists.items()}
    if TRAIN_STEPS in lists:
        steps = protocol[TRAIN_STEPS]
        protocol[TRAIN_STEPS] = [s for s in steps if component_type(s) not in AUGMENTATIONS]
    return {key: value for key, value in protocol.items() if not _is_default(key, value)}


def _is_default(key: str, value: Any) -> bool:
    pattern = re.sub(r"(?<=^val_dataloader\.)[^.]+", "*", key)
    return value in ([], {}) or (pattern in DEFAULTS and DEFAULTS[pattern] == value)


def clients_per_round(results: Results) -> Participation:
    """The number of clients in a round; of those drawn one by one, the number on average."""
    sampler = results.config.get("client_sampler") or {}
    if sampler.get("type") != POISSON:
        return results.clients_per_round
    wanted = sampler["clients_per_round"]
    wanted = results.train.clients if wanted == "all" else max(1, round(wanted))
    return Participation(min=wanted, max=wanted)


def model_name(results: Results) -> str:
    """A run's network as the published records name it, or its class."""
    return MODELS.get(results.model.type, results.model.network or results.model.type)


def matches(results: Results, settings: Sequence[Setting]) -> list["Match"]:
    """A run beside each of some settings."""
    parts = deciding_parts(results.config)
    protocol = protocol_of(results.config)
    return [Match(results, setting, protocol, parts) for setting in settings]


@dataclass(frozen=True, eq=False)
class Match:
    """A run beside a setting."""

    results: Results
    setting: Setting
    protocol: Mapping[str, Any]  # of the run
    parts: Mapping[str, Any]  # of the run's method, as in :func:`deciding_parts`

    @cached_property
    def reasons(self) -> tuple[str, ...]:
        """Reasons against comparing the run in the setting, the decisive one first.

        Empty if it is comparable.
        """
        return (
            *(self._rendered() or self._other_data()),
            *self._other_split(),
            *self._other_protocol(self.differences),
            *self._other_evaluations(),
        )

    @property
    def reasons_of_no_split(self) -> tuple[str, ...]:
        """Reasons against comparing the run in any setting of its data set."""
        train = self.results.train
        words = [f"{train.clients} clients", str(train.partition.get("type", ""))]
        words += [f"{k} {train.partition[k]}" for k in ("alpha", "beta") if k in train.partition]
        title = DATASETS[self.setting.dataset]["title"]
        other = f"other split: {', '.join(filter(None, words))}, as in no benchmark of {title}"
        return (*self._rendered(), *(self._centralized() or [other]))

    def reasons_against_table(self, table: Benchmark) -> tuple[str, ...]:
        """Reasons against one of the further tables of a setting that the run fits."""
        test = self.results.tests.get(CORRUPTED)
        if Metric.parse(table.columns[0].metric).set != CORRUPTED or test is None:
            return ()
        if test.samples != CORRUPTED_SAMPLES:
            return (f"other corruptions: {test.samples} images instead of {CORRUPTED_SAMPLES}",)
        return tuple(self._other_protocol(self._differences_in([CORRUPTED])))

    @cached_property
    def distance(self) -> tuple[int, ...]:
        """Distance of the run from the setting: its differences, the gravest first."""
        return (
            not self.same_split,
            self.results.train.clients != self.setting.n_clients,
            "model.type" in self.differences,
            PARTICIPANTS in self.differences,
            len(self.differences),
        )

    @cached_property
    def same_split(self) -> bool:
        """True if checksum, path or rule of the split is the setting's; images may differ."""
        if self.results.train.partition_sha256 in self._known_clients:
            return True
        keys = self._all_differences
        if self.setting.protocol[f"{PARTITION}type"] == "NaturalPartition":
            return SPLIT not in keys
        return not any(key.startswith(PARTITION) and key != CLIENTS for key in keys)

    @property
    def _known_clients(self) -> Sequence[str]:
        return self.setting.known.get("train", {}).get("partition_sha256", ())

    def _rendered(self) -> list[str]:
        title = DATASETS[self.setting.dataset]["title"]
        reason = f"synthetic data: the images are rendered, they are not {title}"
        return [reason] * self.results.synthetic

    def _centralized(self) -> list[str]:
        is_single = self.results.train.partition.get("type") == CENTRALIZED
        return ["centralized training: one client has every image"] * is_single

    def _other_data(self) -> Iterator[str]:
        data, known = DATASETS[self.setting.dataset], self.setting.known
        train = {"samples": data.get("train_samples"), **known.get("train", {})}
        if self.setting.protocol.get("train_dataloader.dataset.mirror"):
            train["samples"] *= 2  # mirrored ones count, too
        yield from _other_images("training images", self.results.train, train)
        for domain in self.setting.domains:
            test = self.results.tests.get(domain)
            if test is None:
                yield f"no test set {domain!r}"
                continue
            wanted = {"samples": data.get("test_samples"), **known.get("test", {}).get(domain, {})}
            yield from _other_images(f"test images ({domain})", test, wanted)

    def _other_split(self) -> list[str]:
        train, wanted = self.results.train, self.setting.n_clients
        if centralized := self._centralized():
            return centralized
        if train.clients != wanted and CLIENTS not in self.differences:
            return [f"other split: {train.clients} clients instead of {wanted}"]
        if self._known_clients and train.partition_sha256 not in self._known_clients:
            return ["other split: the checksum is not the published one's"]
        return []

    @cached_property
    def differences(self) -> dict[str, tuple[Any, Any]]:
        """The keys of the protocol that differ: key -> (the run's value, the setting's)."""
        known, tests = (self.setting.known.get(kind, {}) for kind in ("train", "test"))
        skipped = [*self.setting.free, *[WINDOW] * (self.setting.window is None)]
        skipped += [SPLIT] * bool({"partition_sha256", "content_sha256"} & known.keys())
        skipped += [PARTITION] * ("partition_sha256" in known or bool(self._centralized()))
        skipped += [f"val_dataloader.{d}.dataset.{k}" for d in tests for k in ("split", "users")]
        differences = self._all_differences.items()
        return {key: pair for key, pair in differences if not key.startswith(tuple(skipped))}

    @cached_property
    def _all_differences(self) -> dict[str, tuple[Any, Any]]:
        return self._differences_in(d for d in self.setting.domains if d in self.results.tests)

    def _differences_in(self, domains: Iterable[str]) -> dict[str, tuple[Any, Any]]:
        """All differences but those in other test sets than ``domains``."""
        tests = tuple(f"val_dataloader.{domain}." for domain in domains)
        batches = [f"{test}batch_size" for test in tests if self.parts["bn"] is None]

        def pairs(wanted: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
            return {
                key: (self.protocol.get(key, NOT_SET), wanted.get(key, NOT_SET))
                for key in {**wanted, **self.protocol}
                if self.protocol.get(key, NOT_SET) != wanted.get(key, NOT_SET)
                and (not key.startswith("val_dataloader.") or key.startswith(tests))
                and key not in batches
                and (key, self.protocol.get(key)) != ("client_sampler.type", POISSON)
            }

        wanted = self.setting.protocol
        fewest = pairs(wanted)
        for variant in self.setting.variants:
            if all(self.parts[name] == part for name, part in variant["when"].items()):
                other = {**wanted, **variant["change"]}
                if variant["when"] or len(pairs(other)) < len(fewest):
                    fewest, wanted = pairs(other), other
        return fewest

    def _other_protocol(self, differences: Mapping[str, tuple[Any, Any]]) -> Iterator[str]:
        owners = [key.removesuffix("type") for key in differences if key.endswith(".type")]
        first = [key for key in DECISIVE if key in differences]
        for key in dict.fromkeys((*first, *differences)):
            pair = differences[key]
            if any(key.startswith(owner) and key != f"{owner}type" for owner in owners):
                continue  # another class has other options
            given, wanted = (v if v is NOT_SET else json.dumps(v) for v in pair)
            texts = f": {given}, in {self.setting.id} {wanted}"
            yield f"{key}{texts if len(texts) <= LONGEST else f' is not as in {self.setting.id}'}"

    def _other_evaluations(self) -> Iterator[str]:
        results, setting = self.results, self.setting
        took, window = clients_per_round(results), results.last_rounds
        if PARTICIPANTS not in self.differences and str(took) != str(setting.clients_per_round):
            yield f"other participation: {took} clients per round, not {setting.clients_per_round}"
        if setting.window is None or self.differences.keys() & {ROUNDS, WINDOW}:
            return
        fewest, of = self._fewest_evaluations()
        if fewest < setting.evaluations:
            yield (
                f"too few evaluations: {fewest}{of} in the last {window.rounds} rounds, at "
                f"least {setting.evaluations} are needed"
            )

    def _fewest_evaluations(self) -> tuple[int, str]:
        """Number of evaluations in the window with the metric, and its domain if not all."""
        window, curves = self.results.last_rounds, self.results.curves
        metric = DATASETS[self.setting.dataset]["metric"]
        counts, begin = [(window.evaluations, "")], self.results.rounds - window.rounds
        for domain in self.setting.domains:  # one may be evaluated less often than others
            values = curves.figures.get(str(Metric.of(domain, metric)), ())
            rounds = zip(curves.rounds, values, strict=False)
            lacking = sum(value is None for round_, value in rounds if round_ > begin)
            counts.append((window.evaluations - lacking, f" of {domain}"))
        return min(counts)


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
