"""Checkpoints: a kill at any moment leaves the old or the new one; nothing foreign is loaded."""

import contextlib
import itertools
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from faults import Payload, kill_at
from toyalgorithms import StoppedError
from toyseg import differences

from fedseg.errors import DataError, resource_error
from fedseg.files import sha256
from fedseg.runner import checkpoint
from fedseg.runner.checkpoint import (
    checkpoint_path,
    checkpoints,
    latest_checkpoint,
    load_checkpoint,
    save_checkpoint,
)


def payload(round_: int, value: float | None = None) -> dict:
    """Of a checkpoint; the value of the weights is the round's number unless given."""
    weights = torch.full((2000,), float(round_ if value is None else value))
    return {"state_dict": {"w": weights}, "round": round_, "stores": {}}


def no_verify(_path: Path, _payload: dict) -> None:
    pass


def newest(folder: Path) -> float | None:
    """The value in the newest checkpoint, all of which must be sound."""
    found = latest_checkpoint(folder, no_verify)
    return None if found is None else float(found[1]["state_dict"]["w"][0])


def killed_saves(tmp_path: Path, before: list[int], round_: int, half: bool) -> Iterator[Path]:
    """Folders with checkpoints of ``before``, then a save of ``round_`` killed at every moment."""
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
                return
        yield folder


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(
    ("before", "round_", "old"),
    [([1], 2, 1), ([1], 1, 1), ([], 1, None)],
    ids=["the next", "written again", "the first"],
)
def test_a_kill_leaves_the_old_checkpoint_or_the_new_one(tmp_path, before, round_, old, half):
    found = []
    for folder in killed_saves(tmp_path, before, round_, half):
        found.append(newest(folder))
        save_checkpoint(checkpoint_path(folder, 2), payload(2))
        assert newest(folder) == 2, "and the run goes on"
    changed = found.index(9)
    assert set(found[:changed]) == {old} and set(found[changed:]) == {9}


def test_two_kills_while_a_checkpoint_is_replaced(tmp_path):
    for killed_once in killed_saves(tmp_path / "once", [1], 1, True):
        before = newest(killed_once)
        for moment in range(4):
            folder = tmp_path / f"{killed_once.name}-{moment}"
            shutil.copytree(killed_once, folder)
            with pytest.MonkeyPatch.context() as patch:
                kill_at(patch, moment, True)
                with contextlib.suppress(StoppedError):
                    save_checkpoint(checkpoint_path(folder, 1), payload(1, 5))
            assert newest(folder) in (before, 5)


def test_every_truncation_of_the_newest_falls_back_with_a_warning(tmp_path):
    for round_ in (1, 2):
        save_checkpoint(checkpoint_path(tmp_path, round_), payload(round_))
    path = checkpoint_path(tmp_path, 2)
    content = path.read_bytes()
    cuts = [0, 1, 10, *range(64, len(content), len(content) // 40), len(content) - 1]
    for cut in cuts:
        path.write_bytes(content[:cut])
        with pytest.warns(UserWarning, match=r"round_000002.*going back to round_000001"):
            found = latest_checkpoint(tmp_path, no_verify)
        assert found[0] == checkpoint_path(tmp_path, 1) and found[1]["round"] == 1


def test_flipped_bits_change_no_weight(tmp_path):
    """Of a copy, too: what a flip does not break it does not change."""
    path = checkpoint_path(tmp_path, 1)
    save_checkpoint(path, payload(1))
    content, refused = path.read_bytes(), []
    for place in range(0, len(content), 97):
        flipped = bytearray(content)
        flipped[place] ^= 4
        copy = tmp_path / "copy.pth"
        copy.write_bytes(flipped)
        try:
            found = load_checkpoint(copy)
            assert differences({key: found[key] for key in payload(1)}, payload(1)) == []
        except DataError as error:
            refused.append(str(error))
    assert len(refused) > 80 and all("copy.pth" in text for text in refused)


@pytest.mark.parametrize("part", ["state_dict", "averaged_state_dict"])
@pytest.mark.parametrize("value", [float("nan"), float("-inf"), -1e20])
def test_weights_that_no_training_gives_are_refused(tmp_path, part, value):
    save_checkpoint(checkpoint_path(tmp_path, 1), payload(1))
    path, poisoned = checkpoint_path(tmp_path, 2), torch.ones(5)
    poisoned[3] = value
    save_checkpoint(path, {**payload(2), part: {"v": poisoned}})
    told = "has values above 1e[+]10" if np.isfinite(value) else "is not finite"
    with pytest.raises(DataError, match=f"round_000002.pth: {part}: v: {told}"):
        load_checkpoint(path)
    with pytest.warns(UserWarning, match=r"round_000002.*going back to round_000001"):
        assert latest_checkpoint(tmp_path, no_verify)[1]["round"] == 1


WRONG = {
    "an edited weight": lambda p: {**p, "state_dict": {"w": torch.full((2000,), 1.5)}},
    "no state_dict": lambda p: {"round": 2},
    "no round": lambda p: {"state_dict": p["state_dict"]},
    "another round": lambda p: {**p, "round": 3},
    "a round as text": lambda p: {**p, "round": "2"},
    "a list of weights": lambda p: {**p, "state_dict": [1.0]},
    "a number for a weight": lambda p: {**p, "state_dict": {"w": 1.0}},
    "weights of clients": lambda p: {**p, "client_statistics": {"a": [torch.ones(2)]}},
    "text for meta": lambda p: {**p, "meta": "x"},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_changed_checkpoint_is_skipped(tmp_path, name):
    for round_ in (1, 2):
        save_checkpoint(checkpoint_path(tmp_path, round_), payload(round_))
    path = checkpoint_path(tmp_path, 2)
    changed = WRONG[name](load_checkpoint(path))
    torch.save(changed, path)  # with the old checksum, if any
    with pytest.warns(UserWarning, match=r"round_000002.*going back"):
        assert latest_checkpoint(tmp_path, no_verify)[1]["round"] == 1
    if name != "an edited weight":  # that would be another sound checkpoint
        save_checkpoint(path, changed)
        with pytest.warns(UserWarning, match=r"round_000002.*going back"):
            assert latest_checkpoint(tmp_path, no_verify)[1]["round"] == 1


def test_no_sound_checkpoint(tmp_path):
    assert latest_checkpoint(tmp_path / "none", no_verify) is None
    (tmp_path / "round_000001.pth").write_bytes(b"x")
    with pytest.raises(DataError, match=r"round_000001\.pth.*without --resume"):
        latest_checkpoint(tmp_path, no_verify)


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
    with pytest.raises(DataError, match="cannot be read"):
        latest_checkpoint(tmp_path, no_verify)
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


def test_an_expanded_tensor_is_saved_with_its_values(tmp_path):
    path = checkpoint_path(tmp_path, 1)
    vector = torch.ones(1).expand(10**6)
    save_checkpoint(path, {"state_dict": {}, "round": 1, "hooks": {"own": vector}})
    assert torch.equal(load_checkpoint(path)["hooks"]["own"], vector)


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
    assert resource_error(raised.value) is None


def test_frozen_weights_are_written_once(tmp_path):
    frozen, names = {"b.w": torch.ones(1000)}, ["a", "b.w", "c"]
    for round_ in (1, 2):
        own = {"a": torch.full((2,), float(round_)), **frozen, "c": torch.zeros(1)}
        content = {"state_dict": own, "averaged_state_dict": own, "round": round_}
        save_checkpoint(checkpoint_path(tmp_path, round_), content, {"b.w", "b.other"})
    (file,) = tmp_path.glob("frozen_*.pth")
    for round_ in (1, 2):
        path = checkpoint_path(tmp_path, round_)
        found = load_checkpoint(path)
        assert list(found["state_dict"]) == list(found["averaged_state_dict"]) == names
        assert differences(found["averaged_state_dict"]["b.w"], frozen["b.w"]) == []
        assert "frozen" not in found  # it is saved again as a whole one
        assert found["state_dict"]["a"][0] == round_ and path.stat().st_size < 4000
    other = checkpoint_path(tmp_path / "other", 1)
    other.parent.mkdir()
    shutil.copy(path, other)
    with pytest.raises(DataError, match=rf"frozen weights are in {file.name}: copy both"):
        load_checkpoint(other)
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DataError, match=rf"{file.name}: is damaged"):
        load_checkpoint(path)


QUANTIZED = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
FROZEN_DAMAGE = {
    "a bit": lambda file, raw: file.write_bytes(raw[:900] + bytes([raw[900] ^ 64]) + raw[901:]),
    "all": lambda file, raw: file.write_bytes(b""),
    "another kind": lambda file, raw: torch.save({"b": QUANTIZED}, file),
    "a link": lambda file, raw: file.symlink_to(shutil.move(file, file.parent.parent / "away")),
}


@pytest.mark.parametrize("name", FROZEN_DAMAGE)
@pytest.mark.parametrize("resumed", [False, True])
def test_a_damaged_file_of_frozen_weights_is_written_again(tmp_path, monkeypatch, name, resumed):
    folder, content = tmp_path / "run", {"state_dict": {"b": torch.rand(1000)}}
    save_checkpoint(checkpoint_path(folder, 1), {**content, "round": 1}, {"b"})
    (file,) = folder.glob("frozen_*.pth")
    raw = file.read_bytes()
    FROZEN_DAMAGE[name](file, raw)
    if resumed:
        monkeypatch.setattr(checkpoint, "_SHARED", {})  # of this process
    save_checkpoint(checkpoint_path(folder, 2), {**content, "round": 2}, {"b"})
    assert file.read_bytes() == raw and not file.is_symlink()
    for round_ in (1, 2):
        found = load_checkpoint(checkpoint_path(folder, round_))
        assert torch.equal(found["state_dict"]["b"], content["state_dict"]["b"])


def test_a_sound_file_of_frozen_weights_stays_as_another_version_wrote_it(tmp_path, monkeypatch):
    save_checkpoint(checkpoint_path(tmp_path, 1), payload(1), {"w"})
    (file,) = tmp_path.glob("frozen_*.pth")
    torch.save(torch.load(file), file, _use_new_zipfile_serialization=False)
    raw = file.read_bytes()
    monkeypatch.setattr(checkpoint, "_SHARED", {})
    save_checkpoint(checkpoint_path(tmp_path, 1), payload(1), {"w"})
    assert file.read_bytes() == raw and load_checkpoint(checkpoint_path(tmp_path, 1))


@pytest.mark.parametrize("wrong", [{"w": QUANTIZED}, {"v": torch.ones(2)}, [torch.ones(2)]])
def test_a_frozen_part_of_something_else_is_damaged(tmp_path, wrong):
    path = checkpoint_path(tmp_path, 1)
    save_checkpoint(path, payload(1), {"w"})
    (file,) = tmp_path.glob("frozen_*.pth")
    torch.save(wrong, file)
    content = torch.load(path)
    content["frozen"]["sha256"] = sha256(file)
    torch.save(content, path)
    with pytest.raises(DataError, match=rf"{file.name}: is damaged, it is not the frozen part"):
        load_checkpoint(path)


@pytest.mark.parametrize("frozen", [{"bn": True}, {"file": "a", "sha256": "b"}])
def test_a_file_from_elsewhere_may_have_something_called_frozen(tmp_path, frozen):
    content = {"state_dict": {"w": torch.ones(2)}, "frozen": frozen}
    torch.save(content, tmp_path / "other.pth")
    assert differences(load_checkpoint(tmp_path / "other.pth"), content) == []
