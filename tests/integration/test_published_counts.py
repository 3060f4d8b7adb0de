"""The published IDDA split files as the data set reads them: FedDrive's clients and counts."""

from pathlib import Path

import pytest

from data_prep.idda import DISTRIBUTIONS
from data_prep.split_folders import Limit
from fedseg.datasets import IDDADataset
from fedseg.partition import read_split
from fedseg.partition.natural import NaturalPartition

PUBLISHED = Path(__file__).parents[3] / "shared" / "data" / "feddrive_splits" / "idda" / "data"
pytestmark = pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason="needs the published splits, ../shared/data/feddrive_splits"
)

# Clients of 48 images, unseen and seen test images, unseen and seen domains.
COUNTS = {
    "country": (90, 840, 1080, 14, 90),
    "rainy": (69, 2100, 828, 35, 69),
    "bus": (83, 1260, 996, 21, 83),
}


@pytest.mark.parametrize("setting", COUNTS)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_data_set_keeps_clients_and_counts(distribution, setting):
    clients, unseen_images, seen_images, unseen_domains, seen_domains = COUNTS[setting]
    folder = PUBLISHED / distribution / setting

    def read(part, users=None):
        return IDDADataset(str(PUBLISHED), str(folder / part), users=users, check="none")

    train = read("train")
    parts = NaturalPartition(key="users")(train)
    assert list(parts) == list(read_split(folder / "train").users)
    assert [len(indices) for indices in parts.values()] == [48] * clients
    unseen = read("test", "test_user_diff_domain")
    seen = read("test", "test_user_same_domain")
    assert (len(unseen), len(seen)) == (unseen_images, seen_images)
    assert (len(set(unseen.domains)), len(set(seen.domains))) == (unseen_domains, seen_domains)
    assert set(train.domains) == set(seen.domains)
    assert not set(train.domains) & set(unseen.domains)


def test_a_limit_keeps_every_published_client():
    train, test = (read_split(PUBLISHED / "heterogeneous" / "rainy" / p) for p in ("train", "test"))
    small, small_test = Limit(2, 1)(train, test, lambda image: image.split("/", 1)[0])
    assert list(small.users) == list(train.users)
    assert len(small.users) == 69
    assert {len(samples) for samples in small.users.values()} == {2}
    assert {u: len(s) for u, s in small_test.users.items()} == {
        "test_user_diff_domain": 35,
        "test_user_same_domain": 69,
    }
