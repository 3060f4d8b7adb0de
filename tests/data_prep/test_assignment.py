"""The splits of IDDA and Cityscapes have the benchmark's numbers, for every seed."""

from pathlib import Path
from statistics import median

import numpy as np
import pytest
from data_prep.deal import deal_across, fit_groups, rarest_class

from data_prep import cityscapes, idda
from fedseg.core.seeds import generator_for
from fedseg.datasets import CityscapesDataset, IDDADataset
from fedseg.errors import ConfigError
from fedseg.partition import read_split

PUBLISHED = Path(__file__).parents[3] / "shared" / "data" / "feddrive_splits"
SEEDS = (0, 1, 7)
# Clients, seen test, unseen test.
IDDA_TABLE = {"country": (90, 1080, 840), "rainy": (69, 828, 2100), "bus": (83, 996, 1260)}
# Clients, images, images a client (min, median, max), cities a client (min, max).
CITYSCAPES_TABLE = {
    "uniform": (146, 2975, (10, 15, 40), (5, 17)),
    "heterogeneous": (144, 2904, (10, 17.5, 45), (1, 1)),
    "class_imbalance": (142, 2970, (10, 15, 40), (1, 7)),
}
# Many classes of all frequencies; a class everywhere and nothing else; one rare class.
CONTENTS = (np.linspace(0.01, 1, 16) ** 2, [1.0], [1.0, 0.02])


def presence(frequencies, seed=0):
    """A presence function: class c occurs in an image with probability ``frequencies[c]``."""

    def classes(samples):
        rng = generator_for(seed, "fake presence")
        return rng.random((len(samples), len(frequencies))) < np.asarray(frequencies)

    return classes


def domains_a_client(split, domain_of):
    return [len({domain_of(x) for x, _ in samples}) for samples in split.users.values()]


def sizes(split):
    return [len(samples) for samples in split.users.values()]


def check_idda(train, test, setting, distribution):
    clients, seen, unseen = IDDA_TABLE[setting]
    assert sizes(train) == [48] * clients
    assert {user: len(s) for user, s in test.users.items()} == {
        "test_user_diff_domain": unseen,
        "test_user_same_domain": seen,
    }
    assert len({*train.samples, *test.samples}) == len(train) + len(test)
    seen_domains = {idda.domain_of(x) for x, _ in train.samples}
    for user, samples in test.users.items():
        domains, counts = np.unique([idda.domain_of(x) for x, _ in samples], return_counts=True)
        if user == "test_user_same_domain":
            assert set(domains) == seen_domains and set(counts) == {12}
        else:
            assert all(idda.is_unseen(setting, d) for d in domains) and set(counts) == {60}
    held = domains_a_client(train, idda.domain_of)
    if distribution == "uniform":
        assert held == [48] * clients
    elif distribution == "heterogeneous":
        assert list(train.users) == [idda.domain_of(s[0][0]) for s in train.users.values()]
        assert held == [1] * clients


def check_cityscapes(train, test, distribution):
    clients, images, spread, cities = CITYSCAPES_TABLE[distribution]
    held = domains_a_client(train, cityscapes.city_of)
    assert (len(train.users), len(train)) == (clients, images)
    assert (min(sizes(train)), median(sizes(train)), max(sizes(train))) == spread
    assert (min(held), max(held)) == cities
    assert {user: len(samples) for user, samples in test.users.items()} == {"test_user": 500}
    assert len({*train.samples, *test.samples}) == images + 500


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("setting", idda.SETTINGS)
def test_idda_numbers(setting, seed):
    pools, tests = [], []
    for distribution in idda.DISTRIBUTIONS:
        train, test = idda.build(
            idda.names(), setting, distribution, seed, presence(CONTENTS[0], seed)
        )
        check_idda(train, test, setting, distribution)
        pools.append(set(train.samples))
        tests.append(test.checksum)
    assert pools[0] == pools[1] == pools[2] and len(set(tests)) == 1


@pytest.mark.parametrize("contents", CONTENTS, ids=("many", "one", "rare"))
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("distribution", cityscapes.DISTRIBUTIONS)
def test_cityscapes_numbers(distribution, seed, contents):
    parts = cityscapes.build(*cityscapes.names(), distribution, seed, presence(contents, seed))
    check_cityscapes(*parts, distribution)


@pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason="needs the published splits, ../shared/data/feddrive_splits"
)
def test_published_files_have_the_same_numbers():
    for distribution in idda.DISTRIBUTIONS:
        for setting in idda.SETTINGS:
            folder = PUBLISHED / "idda" / "data" / distribution / setting
            check_idda(
                read_split(folder / "train"), read_split(folder / "test"), setting, distribution
            )
        folder = PUBLISHED / "cityscapes" / "data" / distribution
        check_cityscapes(read_split(folder / "train"), read_split(folder / "test"), distribution)


def test_seed_fixes_every_split():
    def built(seed):
        made = [
            idda.build(idda.names(), "bus", d, seed, presence(CONTENTS[0]))
            for d in idda.DISTRIBUTIONS
        ]
        made += [
            cityscapes.build(*cityscapes.names(), d, seed, presence(CONTENTS[0]))
            for d in cityscapes.DISTRIBUTIONS
        ]
        return [train.checksum for train, _ in made]

    first = built(3)
    assert built(3) == first
    assert all(a != b for a, b in zip(first, built(4), strict=True))


def test_idda_scales_with_fewer_images():
    images = idda.names(images_per_domain=5)
    train, test = idda.build(images, "rainy", "uniform", 0)
    assert sizes(train) == [4] * 69
    assert domains_a_client(train, idda.domain_of) == [4] * 69
    assert [len(s) for s in test.users.values()] == [35 * 5, 69]


def test_class_imbalance_names_clients_after_their_rarest_classes():
    classes = IDDADataset.classes
    frequencies = np.ones(len(classes))
    frequencies[classes.index("bicycle")] = 0.1
    frequencies[classes.index("traffic light")] = 0.3
    content = presence(frequencies)
    train, _ = idda.build(idda.names(), "rainy", "class_imbalance", 0, content)
    names = list(train.users)
    assert names[0] == "client_bicycle_1" and "client_light_1" in names
    assert "client_bicycle_light" in names and "client_light_road" in names
    assert names.index("client_bicycle_light") < names.index("client_light_1")
    # All bicycles are with the clients named after it: the others cannot learn the class.
    other, _ = idda.build(idda.names(), "rainy", "heterogeneous", 0)
    shows = content(other.samples)[:, classes.index("bicycle")]
    with_bicycle = {s for s, shown in zip(other.samples, shows, strict=True) if shown}
    holders = {user for user, samples in train.users.items() if with_bicycle & set(samples)}
    assert holders == {name for name in names if "bicycle" in name}


def test_class_imbalance_separates_classes_in_cityscapes():
    frequencies = np.ones(len(CityscapesDataset.classes))
    frequencies[16] = 0.2
    content = presence(frequencies)
    parts = cityscapes.names()
    samples = [s for group in parts[0].values() for s in group]
    shown = {s for s, row in zip(samples, content(samples), strict=True) if row[16]}
    train, _ = cityscapes.build(*parts, "class_imbalance", 0, content)
    uniform, _ = cityscapes.build(*parts, "uniform", 0)

    def holders(split):
        return sum(bool(shown & set(held)) for held in split.users.values())

    assert holders(uniform) > 120 and holders(train) < 60


def test_rarest_class():
    present = np.array([[1, 1, 0], [1, 0, 1], [1, 0, 0], [1, 1, 0], [0, 0, 0]], dtype=bool)
    assert rarest_class(present).tolist() == [1, 2, 0, 1, -1]


def test_deal_across_uses_as_many_groups_as_it_can():
    groups = [[(g, i) for i in range(6)] for g in range(4)]
    hands = deal_across(groups, 4, generator_for(0, "test"))
    assert sorted(x for hand in hands for x in hand) == sorted(x for g in groups for x in g)
    assert all(len(hand) == 6 and len({g for g, _ in hand}) == 4 for hand in hands)
    with pytest.raises(ValueError, match="cannot be dealt"):
        deal_across(groups, 5, generator_for(0, "test"))


def test_fit_groups_keeps_images_and_sizes_and_refuses_the_impossible():
    rng = generator_for(0, "test")
    clients = [[(g, i) for i in range(8)] for g in range(6)]
    hands = fit_groups(clients, lambda x: x[0], 1, 4, rng)
    assert [len(hand) for hand in hands] == [8] * 6
    assert sorted(x for hand in hands for x in hand) == sorted(x for hand in clients for x in hand)
    assert max(len({g for g, _ in hand}) for hand in hands) == 4
    with pytest.raises(ValueError, match="cannot"):
        fit_groups([[(0, 0)], [(1, 1)]], lambda x: x[0], 1, 2, rng)


def test_unknown_names_are_refused():
    with pytest.raises(ConfigError, match="must be one of country, rainy, bus"):
        idda.build(idda.names(2), "snow", "uniform", 0)
    with pytest.raises(ConfigError, match="distribution 'even'"):
        cityscapes.build(*cityscapes.names(), "even", 0)
    with pytest.raises(ConfigError, match="give 2 or more"):
        idda.build(idda.names(1), "bus", "uniform", 0)
