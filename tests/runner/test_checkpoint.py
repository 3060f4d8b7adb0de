"""Checkpoints: a kill at any moment leaves the old or the new one; nothing foreign is loaded."""

import itertools
import pickle
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from faults import Payload, kill_at
from toyalgorithms import StoppedError
from toyseg import differences

from fedseg.errors import DataError, is_system_error
from fedseg.runner.checkpoint import (
    checkpoint_path,
    checkpoints,
    copy_checkpoint,
    delete_checkpoint,
    load_checkpoint,
    newest_advice,
    save_checkpoint,
    sum_path,
)


def payload(round_: int, value: float | None = None) -> dict:
    """Of a checkpoint; the value of the weights is the round's number unless given."""
    weights = torch.full((2000,), float(round_ if value is None else value))
    return {"state_dict": {"w": weights}, "round": round_, "stores": {}}


def newest(folder: Path) -> float | None:
    """The value in the newest checkpoint, which must be sound."""
    saved = checkpoints(folder)
    return float(load_checkpoint(saved[-1][1])["state_dict"]["w"][0]) if saved else None


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(
    ("before", "round_", "old"),
    [([1], 2, 1), ([1], 1, 1), ([], 1, None)],
    ids=["the next", "written again", "the first"],
)
def test_a_kill_leaves_the_old_checkpoint_or_the_new_one(tmp_path, before, round_, old, half):
    left = []
    for moment in itertools.count():
        folder = tmp_path / str(moment)
        for earlier in before:
            save_checkpoint(checkpoint_path(folder, earlier), payload(earlier))
        with pytest.MonkeyPatch.context() as patch:
            calls = kill_at(patch, moment, half)
            try:
                save_checkpoint(checkpoint_path(folder, round_), payload(round_, 9))
            except StoppedError:
                pass
            else:
                assert moment == len(calls) and {"save", "replace", "fsync"} <= set(calls)
                break
        left.append(newest(folder))
        save_checkpoint(checkpoint_path(folder, 2), payload(2))
        assert newest(folder) == 2, "and the run goes on"
    changed = left.index(9)
    assert set(left[:changed]) == {old} and set(left[changed:]) == {9}


def test_sha256sum_reads_the_sum_of_a_checkpoint(tmp_path):
    path, copy = checkpoint_path(tmp_path, 1), tmp_path / "best_seen_mIoU.pth"
    save_checkpoint(path, payload(1))
    copy_checkpoint(path, copy)
    names = [sum_path(path).name, sum_path(copy).name]
    assert subprocess.run(["sha256sum", "-c", *names], cwd=tmp_path).returncode == 0
    delete_checkpoint(path)
    delete_checkpoint(copy)
    assert not list(tmp_path.iterdir())


def test_another_byte_is_damage_and_the_newest_whole_checkpoint_is_named(tmp_path):
    for round_ in (1, 2, 3):
        save_checkpoint(checkpoint_path(tmp_path, round_), payload(round_))
    for round_ in (2, 3):
        path = checkpoint_path(tmp_path, round_)
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 4
        path.write_bytes(content)
    with pytest.raises(DataError, match=r"round_000003\.pth: is damaged, its SHA-256 is not that"):
        load_checkpoint(path)
    advice = "delete round_000003.pth to continue from round_000001.pth"
    assert newest_advice(path).startswith(advice)
    assert newest_advice(checkpoint_path(tmp_path, 1)).startswith("no older checkpoint is whole")


def test_a_file_without_its_sum_is_read_if_it_is_whole(tmp_path):
    path, copy = checkpoint_path(tmp_path, 1), tmp_path / "copy.pth"
    save_checkpoint(path, payload(1))
    shutil.copy(path, copy)
    assert differences(load_checkpoint(copy), payload(1)) == []
    content = copy.read_bytes()
    for cut in (0, 10, len(content) // 2, len(content) - 1):
        copy.write_bytes(content[:cut])
        with pytest.raises(DataError, match=r"copy\.pth: cannot be read as a checkpoint"):
            load_checkpoint(copy)


@pytest.mark.parametrize("part", ["state_dict", "averaged_state_dict"])
@pytest.mark.parametrize("value", [float("nan"), float("-inf"), -1e20])
def test_weights_that_no_training_gives_are_refused(tmp_path, part, value):
    path, poisoned = checkpoint_path(tmp_path, 2), torch.ones(5)
    poisoned[3] = value
    save_checkpoint(path, {**payload(2), part: {"v": poisoned}})
    fault = "has values above 1e[+]10" if np.isfinite(value) else "is not finite"
    with pytest.raises(DataError, match=f"round_000002.pth: {part}: v: {fault}"):
        load_checkpoint(path)


WRONG = {
    "no state_dict": {"state_dict": None},
    "another round": {"round": 3},
    "a round as text": {"round": "2"},
    "a list of weights": {"state_dict": [1.0]},
    "a number for a weight": {"state_dict": {"w": 1.0}},
    "weights of clients": {"client_statistics": {"a": [torch.ones(2)]}},
    "text for meta": {"meta": "x"},
    "a list for history": {"history": [1]},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_checkpoint_of_other_content_is_refused(tmp_path, name):
    path = checkpoint_path(tmp_path, 2)
    save_checkpoint(path, {**payload(2), **WRONG[name]})
    with pytest.raises(DataError, match=r"round_000002\.pth: "):
        load_checkpoint(path)


@pytest.mark.parametrize("writer", ["torch", "pickle"])
def test_a_malicious_pickle_is_refused(tmp_path, writer):
    path, pwned = checkpoint_path(tmp_path, 1), tmp_path / "pwned"
    content = {"state_dict": {}, "evil": Payload(pwned)}
    if writer == "torch":
        torch.save(content, path)
    else:
        path.write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(DataError, match=r"round_000001\.pth: cannot be read as a checkpoint"):
        load_checkpoint(path)
    assert not pwned.exists()


def test_what_is_no_checkpoint(tmp_path):
    with pytest.raises(DataError, match="no such checkpoint"):
        load_checkpoint(tmp_path / "round_000001.pth")
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(DataError, match="no 'state_dict'"):
        load_checkpoint(tmp_path / "list.pth")


def test_rounds_are_in_numerical_order(tmp_path):
    for round_ in (2, 1_000_000, 999_999, 10):
        save_checkpoint(checkpoint_path(tmp_path, round_), payload(round_))
    (tmp_path / "best_unseen_mIoU.pth").touch()
    (tmp_path / "round_000003.pth.part").touch()
    assert [r for r, _ in checkpoints(tmp_path)] == [2, 10, 999_999, 1_000_000]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        torch.ones(3, 3).to_sparse(),
        torch.ones(3, dtype=torch.complex64),
    ],
)
def test_a_tensor_of_another_kind_is_no_weight(tmp_path, tensor):
    torch.save({"state_dict": {"w": tensor}}, tmp_path / "round_000001.pth")
    with pytest.raises(DataError, match="cannot be read as a checkpoint of tensors"):
        load_checkpoint(tmp_path / "round_000001.pth")


class Huge:
    def __reduce__(self):
        return (bytearray, (10**15,))


def test_a_pickle_that_asks_for_more_than_any_memory_is_damaged(tmp_path):
    torch.save({"state_dict": {"w": Huge()}}, tmp_path / "round_000001.pth")
    with pytest.raises(DataError, match=r"round_000001\.pth: cannot be read") as raised:
        load_checkpoint(tmp_path / "round_000001.pth")
    assert not is_system_error(raised.value)
