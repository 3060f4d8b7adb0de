"""Split folders: limits keep every client."""

from fedseg.data_prep.segmentation import rendered_files
from fedseg.data_prep.segmentation_sets import IDDA
from fedseg.data_prep.split_folders import limit
from fedseg.data_prep.split_rules import build_idda
from fedseg.datasets import IDDADataset


def test_a_limit_keeps_every_client():
    train, test = build_idda(rendered_files(IDDA), ("heterogeneous", "rainy"), 0)
    small, small_test = limit(train, test, 2, 1, IDDADataset.domain_of)
    assert list(small.users) == list(train.users) and len(small.users) == 69
    assert all(samples == train.users[user][:2] for user, samples in small.users.items())
    assert {user: len(samples) for user, samples in small_test.users.items()} == {
        "test_user_diff_domain": 35,
        "test_user_same_domain": 69,
    }
    whole, whole_test = limit(train, test, 100, None, IDDADataset.domain_of)
    assert whole.users == train.users and whole_test.users == test.users
