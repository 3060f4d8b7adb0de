"""IDDA: what must be on disk, and FedDrive's splits of it.

A domain is a town, a weather and a viewpoint. A setting leaves some domains unseen: all of T07
(country), all hard rain (rainy), all of viewpoint B (bus). Of every seen domain a random fifth of
the images (12 of 60) is the seen test set and the rest (48) is the train pool; pool and test sets
depend on the seed alone, so a setting's three distributions share them.

:data:`RULES` say who holds what; that of ``class_imbalance`` is ours, the published is unknown.
"""

import re
from pathlib import Path

import numpy as np

from fedseg.core.seeds import generator_for
from fedseg.datasets import IDDADataset
from fedseg.errors import DataError
from fedseg.names import DISTRIBUTIONS
from fedseg.names import IDDA_SETTINGS as SETTINGS
from fedseg.partition import Split

from .assignment import class_order, cut, rarest_class, spread_groups
from .disk import Findings, Sample, check_files, find_pairs
from .label_classes import Presence

Images = dict[str, list[Sample]]  # domain -> samples

NAME = "idda"
DATASET = IDDADataset
TEST_USERS = ("test_user_diff_domain", "test_user_same_domain")
SIZE = (464, 256)  # of rendered images: width and height in pixels
IMAGES_PER_DOMAIN = 60
DOMAINS: tuple[str, ...] = tuple(
    f"T{town:02d}_{weather}_{viewpoint}"
    for town in range(1, 8)
    for weather in ("CN", "CS", "HRN")
    for viewpoint in "ABJMV"
    if (town, weather, viewpoint) != (7, "CN", "M")
)
"""The 104 domains; town 7 has no clear noon seen from M."""
_DOMAIN = re.compile(r"T0([1-7])_(CN|CS|HRN)_([ABJMV])")
# How a client's name calls a class; the last word is for -1, images without any.
WORDS = [*(name.removeprefix("traffic ") for name in IDDADataset.classes), "void"]
RULES = {
    "uniform": (
        "as many clients as seen domains; each takes one image from each of the domains with the "
        "most images left, ties at random"
    ),
    "heterogeneous": "a client is a domain",
    "class_imbalance": (
        "every image goes to the rarest class it shows (the class that the fewest images of the "
        "train pool show); images are ordered by that class, rarest first, then by domain (domains "
        "in random order), and cut into consecutive clients; a client is named after the classes "
        "its images went to"
    ),
}


def is_unseen(setting: str, domain: str) -> bool:
    """Whether a setting keeps a domain for the test of unseen domains."""
    part, value = SETTINGS[setting]
    return domain.split("_")[part] == value


def names() -> Images:
    """File names of synthetic data: domain -> samples in order of name, as on disk."""
    return {
        domain: sorted(
            (f"{domain}/RGB/{i}_{domain}.jpg", f"{domain}/Semantic/{i}_{domain}.png")
            for i in range(1, IMAGES_PER_DOMAIN + 1)
        )
        for domain in DOMAINS
    }


def verify(root: Path) -> Images:
    """Every domain of ``root/IDDAsmall``, complete and readable: domain -> samples by name.

    Raises:
        DataError: everything that is missing, unpaired, truncated or of unequal size, counted.
    """
    base = root / IDDADataset.image_root
    if not base.is_dir():
        raise DataError(
            f"{base}: does not exist: put IDDA there (<domain>/RGB and <domain>/Semantic), name "
            "its parent with --root, or render synthetic data with --synthetic"
        )
    findings = Findings(
        f"{base}: not the {len(DOMAINS)} domains x {IMAGES_PER_DOMAIN} images of IDDA",
        "Extract IDDA again",
    )
    images: Images = {}
    for domain in DOMAINS:
        folders = (f"{domain}/RGB", f"{domain}/Semantic")
        pairs = find_pairs((base, base), folders, (".jpg", ".png"), findings, IMAGES_PER_DOMAIN)
        images[domain] = sorted(pairs)
    every = [s for samples in images.values() for s in samples]
    check_files(every, (base, base), root, findings)
    return images


def build(
    images: Images, setting: str, distribution: str, seed: int, presence: Presence | None = None
) -> tuple[Split, Split]:
    """Train (clients) and test (:data:`TEST_USERS`) of one setting and distribution.

    Args:
        images: domain -> samples; of equal number.
        presence: only for class imbalance, samples -> bool [samples, classes].
    """
    pool: Images = {}
    held_out: list[Sample] = []
    unseen: list[Sample] = []
    for domain, samples in images.items():
        if is_unseen(setting, domain):
            unseen += samples
            continue
        rng = generator_for(seed, "idda seen test", DOMAINS.index(domain))
        order = rng.permutation(len(samples))
        tests = len(samples) // 5
        held_out += [samples[i] for i in sorted(order[:tests])]
        pool[domain] = [samples[i] for i in order[tests:]]
    counter = (list(SETTINGS).index(setting), DISTRIBUTIONS.index(distribution))
    rng = generator_for(seed, "idda clients", *counter)
    if distribution == "heterogeneous":
        clients = pool
    elif distribution == "uniform":
        assigned = spread_groups(list(pool.values()), len(pool), rng)
        clients = {f"client_{i}": samples for i, samples in enumerate(assigned, start=1)}
    else:
        clients = _by_class(pool, presence, rng)
    return Split(clients), Split(dict(zip(TEST_USERS, (unseen, held_out), strict=True)))


def scene(image: str, seed: int) -> tuple[int, str, str, int]:
    """Town, weather, viewpoint and variant of a rendered image; DataError: it names no domain."""
    match = _DOMAIN.fullmatch(IDDADataset.domain_of(image))
    if not match:
        raise DataError(
            f"{image}: the first folder must be a domain such as T01_CN_A"
            " (T01 to T07, CN, CS or HRN, A, B, J, M or V)"
        )
    return int(match[1]), match[2], match[3], 0


def _by_class(pool: Images, presence: Presence, rng: np.random.Generator) -> Images:
    samples = [sample for group in pool.values() for sample in group]
    present = presence(samples)
    order = class_order(present, [IDDADataset.domain_of(x) for x, _ in samples], rng)
    kinds = rarest_class(present)
    clients: Images = {}
    numbers: dict[str, int] = {}
    for part in cut(order.tolist(), [len(group) for group in pool.values()]):
        words = [WORDS[kind] for kind in dict.fromkeys(kinds[part].tolist())]
        name = "client_" + "_".join(words)
        if len(words) == 1:
            numbers[name] = numbers.get(name, 0) + 1
            name = f"{name}_{numbers[name]}"
        clients[name] = [samples[i] for i in part]
    return clients
