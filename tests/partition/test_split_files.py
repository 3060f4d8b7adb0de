"""Split files: what is read, what is written, what is refused."""

import json

import pytest

from fedseg.errors import DataError
from fedseg.partition import Split, read_split, write_split


def content(**changes):
    data = {
        "users": ["b", "a"],
        "num_samples": [2, 1],
        "user_data": {
            "b": {"x": ["d/1.jpg", "d/2.jpg"], "y": ["d/1.png", "d/2.png"]},
            "a": {"x": ["d/3.jpg"], "y": ["d/3.png"]},
        },
    }
    data.update(changes)
    return data


def put(folder, data, name="all_data_0.json"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(data if isinstance(data, str) else json.dumps(data))
    return folder


def one_user(x, y):
    return content(users=["u"], num_samples=[len(x)], user_data={"u": {"x": x, "y": y}})


def test_users_and_samples_keep_their_order(tmp_path):
    split = read_split(put(tmp_path, content()))
    assert list(split.users) == ["b", "a"]
    assert split.users["b"] == [("d/1.jpg", "d/1.png"), ("d/2.jpg", "d/2.png")]
    assert len(split) == 3 and split.samples[-1] == ("d/3.jpg", "d/3.png")


def test_files_are_read_in_numeric_order(tmp_path):
    for number in (10, 9, 1):
        data = one_user([f"{number}.jpg"], [f"{number}.png"])
        data = json.loads(json.dumps(data).replace('"u"', f'"u{number}"'))
        put(tmp_path, data, f"all_data_{number}.json")
    assert list(read_split(tmp_path).users) == ["u1", "u9", "u10"]


def test_same_split_same_bytes_and_checksum(tmp_path):
    split = read_split(put(tmp_path / "source", content()))
    first = write_split(tmp_path / "one", split).read_bytes()
    again = write_split(tmp_path / "two", read_split(tmp_path / "one"))
    assert again.read_bytes() == first
    assert read_split(tmp_path / "two").checksum == split.checksum
    assert json.loads(first) == content()


def test_checksum_depends_on_content_and_order():
    one = {"a": [("1", "2")], "b": [("3", "4")]}
    assert Split(one).checksum == Split({**one}).checksum
    for other in ({"b": one["b"], "a": one["a"]}, {**one, "b": [("3", "5")]}):
        assert Split(one).checksum != Split(other).checksum


def test_writing_replaces_the_other_files_of_the_folder(tmp_path):
    put(tmp_path, content(), "all_data_0.json")
    write_split(tmp_path, Split({"new": [("1.jpg", "1.png")]}))
    assert list(read_split(tmp_path).users) == ["new"]


REFUSED = [
    ([1], "must be a valid dict"),
    ("{", "JSON"),
    ({"users": ["a"]}, "num_samples: is missing"),
    (content(users=[], num_samples=[], user_data={}), "users: List should have at least 1 item"),
    (content(users=["b", "\x1b[31m"]), "users[1]"),
    (content(users=["b", "b"]), "user 'b' is listed twice"),
    (content(users=["b", "c"]), "only one of users"),
    (content(users=["b"], num_samples=[2]), "user 'a' is in only one"),
    (content(num_samples=[2]), "num_samples has 1 values for 2 users"),
    (content(num_samples=[2, 1, 1]), "num_samples has 3 values for 2 users"),
    (content(num_samples=[2, 2]), "user 'a': num_samples is 2"),
    (content(num_samples=[2, True]), "num_samples[1]"),
    (one_user(["1.jpg"], []), "x has 1 images and y 0 labels"),
    (one_user([], []), "user_data.u.x: List should have at least 1 item"),
    (content(users=["u"], num_samples=[1], user_data={"u": {"x": "a"}}), "user_data.u.x: "),
    (one_user(["1.jpg", "1.jpg"], ["1.png", "2.png"]), "'1.jpg' is already held by user 'u'"),
    (one_user(["/etc/passwd"], ["1.png"]), "x[0]: '/etc/passwd' is absolute"),
    (one_user(["C:/1.jpg"], ["1.png"]), "x[0]: 'C:/1.jpg' is absolute"),
    (one_user(["1.jpg"], ["d/../../1.png"]), "y[0]: 'd/../../1.png' "),
    (one_user(["..\\1.jpg"], ["1.png"]), "backslash"),
    (one_user(["./1.jpg"], ["1.png"]), "'./1.jpg'"),
    (one_user([3], ["1.png"]), "user_data.u.x[0]: "),
]


def test_refused(tmp_path):
    for data, message in REFUSED:
        put(tmp_path, data)
        with pytest.raises(DataError) as error:
            read_split(tmp_path)
        assert message in str(error.value)
        assert str(tmp_path / "all_data_0.json") in str(error.value)


def test_user_in_two_files_is_refused_naming_both(tmp_path):
    put(tmp_path, content(), "all_data_0.json")
    put(tmp_path, content(), "all_data_1.json")
    with pytest.raises(DataError, match=r"all_data_1.json: user 'b' is already in .*all_data_0"):
        read_split(tmp_path)


def test_missing_and_empty_folder_are_refused(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        read_split(tmp_path / "none")
    with pytest.raises(DataError, match=r"no \*.json"):
        read_split(tmp_path)


def test_writing_checks_too(tmp_path):
    with pytest.raises(DataError, match=r"'\.\.'"):
        write_split(tmp_path, Split({"u": [("../1.jpg", "1.png")]}))
    with pytest.raises(DataError, match="user 'u' has no images"):
        write_split(tmp_path, Split({"u": []}))
    assert not list(tmp_path.iterdir())
