"""Which images of a folder are tests, and who trains on the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedseg.core.seeds import generator_for
from fedseg.datasets import SegmentationDataset
from fedseg.errors import ConfigError, DataError
from fedseg.names import did_you_mean
from fedseg.partition import (
    DirichletPartition,
    HomogeneousPartition,
    NaturalPartition,
    SizePartition,
)

from .classes import read_text
from .layout_images import LabeledImage
from .layouts import Layout

SHARE = 0.2  # of each domain that is trained on, for tests


@dataclass(frozen=True)
class SplitRule:
    """How test images are chosen and clients are made."""

    unseen: Sequence[str] = ()  # domains that are for tests only
    test_share: float | None = None  # of each other domain, for tests; None: SHARE
    test_splits: Sequence[str] = ()  # published splits that are the tests instead
    test_list: str = ""  # or a file below the root that names them
    clients: int | None = None  # None: a client is a domain
    partition: str | None = None  # None: uniform, or domain without clients
    alpha: float | None = None  # of dirichlet and size; None: 1
    seed: int = 0

    @property
    def kind(self) -> str:
        """The partition."""
        if self.partition is not None:
            return self.partition
        return "domain" if self.clients is None else "uniform"

    @property
    def share(self) -> float:
        """The share of each domain that is for tests."""
        return SHARE if self.test_share is None else self.test_share

    @property
    def tests(self) -> list[str]:
        """What says which images are tests, for the note of the split."""
        if self.test_splits:
            return [*self.test_splits]
        if self.test_list:
            return [self.test_list]
        return [*self.unseen, f"{self.share:g}"]


def published_rule(rule: SplitRule, kind: type[SegmentationDataset]) -> SplitRule:
    """Fill in what the class of a published data set says and the rule does not."""
    if not rule.unseen and rule.test_share is None:
        rule = replace(
            rule,
            test_splits=kind.test_splits,
            test_list=kind.test_list,
            test_share=kind.test_share or None,
        )
    if rule.clients is None and rule.partition != "domain":
        rule = replace(rule, clients=kind.clients)
    if rule.partition is None and kind.alpha is not None:
        rule = replace(rule, partition="dirichlet")
    if rule.alpha is None:
        rule = replace(rule, alpha=kind.alpha)
    return rule


# ---- tests


def choose_tests(
    root: Path, images: Sequence[LabeledImage], rule: SplitRule
) -> dict[str, set[int]]:
    """Choose the test images: test user -> positions of images.

    Users are ``seen``, a share of each domain that is trained on, and ``unseen``, whole domains; or
    ``test``, the published test images.
    """
    if rule.test_splits:
        return {"test": {i for i, image in enumerate(images) if image.split in rule.test_splits}}
    if rule.test_list:
        return {"test": find_listed(root / rule.test_list, images)}
    domains = [image.domain for image in images]
    unseen = find_unseen(domains, rule.unseen)
    tests = {}
    if rule.share > 0:
        tests["seen"] = draw_seen(domains, unseen, rule.share, rule.seed)
        if not tests["seen"]:
            raise DataError(
                f"{root}: no domain has two images to take a share for tests from: add images, or "
                "give --unseen with --test-share 0."
            )
    if unseen:
        tests["unseen"] = unseen
    if not tests:
        raise ConfigError("--test-share: must be above 0 without --unseen, or nothing is tested.")
    return tests


def find_unseen(domains: Sequence[str], unseen: Sequence[str]) -> set[int]:
    """Find the images of unseen domains, by the domain of each image."""
    for domain in unseen:
        if domain not in domains:
            known = sorted({*domains})
            hint = did_you_mean(domain, known)
            raise ConfigError(
                f"--unseen: must be domains, not {domain!r}{hint}: there are {', '.join(known)}."
            )
    return {i for i, domain in enumerate(domains) if domain in unseen}


def draw_seen(domains: Sequence[str], unseen: set[int], share: float, seed: int) -> set[int]:
    """Draw a share of the images of each domain, at least one, but not all of them.

    Args:
        domains: of each image.
        unseen: images that are tests already.
        share: from 0 to 1.
    """
    seen: set[int] = set()
    for number, name in enumerate(sorted(set(domains))):
        pool = [i for i, domain in enumerate(domains) if domain == name and i not in unseen]
        size = min(max(1, round(share * len(pool))), len(pool) - 1)
        if size > 0:
            order = generator_for(seed, "segmentation test", number).permutation(len(pool))
            seen |= {pool[i] for i in order[:size]}
    return seen


def find_listed(file: Path, images: Sequence[LabeledImage]) -> set[int]:
    """Find the images that a published list names, without their ending, one a line."""
    positions = {Path(image.image).stem: i for i, image in enumerate(images)}
    names = read_text(file).split()
    unknown = [name for name in names if name not in positions]
    if unknown or not names:
        raise DataError(
            f"{file}: must name images with label maps, without their ending, one a line, not "
            f"{', '.join(unknown[:1]) or 'nothing'}."
        )
    return {positions[name] for name in names}


# ---- clients


@dataclass(frozen=True)
class Pool:
    """Training images as a partition sees them."""

    domains: Sequence[str]
    pixels: np.ndarray  # of each class in each image, int64 [images, classes]

    def __len__(self) -> int:
        return len(self.domains)

    def class_pixels(self) -> np.ndarray:
        return self.pixels


def check_rule(layout: Layout, rule: SplitRule) -> None:
    """Raise ConfigError if domains are named without ``{domain}``, or how many clients is not."""
    if rule.unseen and not layout.has_domains:
        raise ConfigError("--unseen: needs {domain} in --images.")
    if rule.clients is None and not layout.has_domains:
        raise ConfigError("--clients: is missing: how many clients, or write {domain} in --images.")
    if rule.kind == "domain" and (rule.clients is not None or not layout.has_domains):
        raise ConfigError("--partition: domain needs {domain} in --images, and no --clients.")
    if rule.kind != "domain" and rule.clients is None:
        raise ConfigError(f"--clients: is missing: how many does --partition {rule.kind} make?")


def divide(pool: Pool, rule: SplitRule) -> Mapping[str, np.ndarray]:
    """Divide training images among clients: client -> positions in the pool."""
    alpha = 1.0 if rule.alpha is None else rule.alpha
    if rule.kind == "domain":
        return NaturalPartition("domains")(pool)
    if rule.kind == "dirichlet":
        return DirichletPartition(rule.clients, alpha, rule.seed)(pool)
    if rule.kind == "size":
        return SizePartition(rule.clients, alpha, 2, rule.seed)(pool)
    return HomogeneousPartition(rule.clients, rule.seed)(pool)
