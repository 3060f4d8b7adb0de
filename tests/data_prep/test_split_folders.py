"""Split folders: limits keep every client, and the data set reads what was written."""

from fedseg.data_prep.segmentation import rendered_files
from fedseg.data_prep.segmentation_sets import IDDA
from fedseg.data_prep.split_folders import limit
from fedseg.data_prep.split_rules import build_idda
from fedseg.datasets import IDDADataset
from fedseg.partition import NaturalPartition, write_split


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


def test_the_data_set_keeps_clients_and_counts(tmp_path, monkeypatch):
    monkeypatch.setattr("fedseg.datasets.segmentation.check_exist", lambda *_: None)
    for setting, clients, unseen, seen in (
        ("country", 90, 840, 1080),
        ("rainy", 69, 2100, 828),
        ("bus", 83, 1260, 996),
    ):
        folder = tmp_path / setting
        train, test = build_idda(rendered_files(IDDA), ("uniform", setting), 0)
        write_split(folder / "train", train)
        write_split(folder / "test", test)

        def read(part, folder=folder, **options):
            return IDDADataset(str(tmp_path), str(folder / part), **options)

        parts = NaturalPartition(key="users")(read("train"))
        assert list(parts) == list(train.users)
        assert [len(indices) for indices in parts.values()] == [48] * clients
        apart = read("test", users="test_user_diff_domain")
        known = read("test", users="test_user_same_domain")
        assert (len(apart), len(known)) == (unseen, seen)
        assert set(read("train").domains) == set(known.domains)
        assert not set(known.domains) & set(apart.domains)
