"""Checkpoints: a kill at any moment leaves the old or the new one; nothing foreign is loaded."""

import contextlib
import io
import itertools
import os
import pickle
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from fedseg.errors import DataError
from fedseg.runner import checkpoint as module
from fedseg.runner import state_store as store
from fedseg.runner.checkpoint import (
    checkpoint_path,
    checkpoints,
    latest_checkpoint,
    load_checkpoint,
    remove_checkpoint,
    save_checkpoint,
)


class KilledError(BaseException):
    """Stands for SIGKILL: no handler of Exception sees it."""


def payload(value: float) -> dict:
    return {"state_dict": {"w": torch.full((2000,), value)}, "round": int(value), "stores": {}}


def no_verify(_payload: dict) -> None:
    pass


def newest(folder: Path) -> float | None:
    """The value in the newest sound checkpoint."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = latest_checkpoint(folder, no_verify)
    return None if found is None else float(found[1]["state_dict"]["w"][0])


def kill_at(monkeypatch: pytest.MonkeyPatch, moment: int, half: bool) -> list[str]:
    """Raise at the ``moment``-th call of whatever touches the disk; returns the calls' names.

    Args:
        half: a call that writes bytes writes half of them first; a rename happens before the kill.
    """
    calls: list[str] = []

    def wrap(name, function, partial):
        def wrapped(*args, **kwargs):
            calls.append(name)
            if len(calls) - 1 == moment:
                if half:
                    partial(*args, **kwargs)
                raise KilledError
            return function(*args, **kwargs)

        return wrapped

    def half_save(content, file):
        buffer = io.BytesIO()
        torch_save(content, buffer)
        file.write(buffer.getvalue()[: buffer.tell() // 2])
        file.flush()

    def half_text(path, text, **kwargs):
        with open(path, "w", encoding="ascii") as file:
            file.write(text[: len(text) // 2])

    torch_save, replace, fsync, write_text = torch.save, os.replace, os.fsync, Path.write_text
    monkeypatch.setattr(store.torch, "save", wrap("save", torch_save, half_save))
    monkeypatch.setattr(os, "replace", wrap("replace", replace, replace))
    monkeypatch.setattr(os, "fsync", wrap("fsync", fsync, fsync))
    monkeypatch.setattr(Path, "write_text", wrap("text", write_text, half_text))
    return calls


def killed_saves(tmp_path: Path, before: list[int], round_: int, half: bool) -> Iterator[Path]:
    """Folders with checkpoints of ``before``, then a save of ``round_`` killed at every moment."""
    for moment in itertools.count():
        folder = tmp_path / str(moment)
        for earlier in before:
            save_checkpoint(checkpoint_path(folder, earlier), payload(earlier))
        with pytest.MonkeyPatch.context() as patch:
            calls = kill_at(patch, moment, half)
            try:
                save_checkpoint(checkpoint_path(folder, round_), payload(9))
            except KilledError:
                pass
            else:
                assert moment == len(calls) > 3 and {"save", "replace", "fsync"} <= set(calls)
                return
        yield folder


@pytest.mark.parametrize("half", [False, True])
def test_a_kill_while_the_next_checkpoint_is_written(tmp_path, half):
    found = []
    for folder in killed_saves(tmp_path, [1], 2, half):
        found.append(newest(folder))
        save_checkpoint(checkpoint_path(folder, 2), payload(2))
        assert newest(folder) == 2, "and the run goes on"
    assert set(found) == {1, 9} and found == sorted(found)


@pytest.mark.parametrize("half", [False, True])
def test_a_kill_while_a_checkpoint_is_replaced(tmp_path, half):
    """The only checkpoint, written again for the same round: the old one or the new one stays."""
    found = [newest(folder) for folder in killed_saves(tmp_path, [1], 1, half)]
    assert set(found) == {1, 9} and found == sorted(found)


def test_two_kills_while_a_checkpoint_is_replaced(tmp_path):
    for killed_once in killed_saves(tmp_path / "once", [1], 1, True):
        before = newest(killed_once)
        for moment in range(4, 12):
            folder = tmp_path / f"{killed_once.name}-{moment}"
            shutil.copytree(killed_once, folder)
            with pytest.MonkeyPatch.context() as patch:
                kill_at(patch, moment, True)
                with contextlib.suppress(KilledError):
                    save_checkpoint(checkpoint_path(folder, 1), payload(5))
            assert newest(folder) in (before, 5)


@pytest.mark.parametrize("half", [False, True])
def test_the_first_checkpoint_is_there_or_not(tmp_path, half):
    found = [newest(folder) for folder in killed_saves(tmp_path, [], 1, half)]
    assert set(found) == {None, 9}


def test_a_kill_while_a_checkpoint_is_removed(tmp_path, monkeypatch):
    for round_ in (1, 2):
        save_checkpoint(checkpoint_path(tmp_path, round_), payload(round_))
    unlink, calls = Path.unlink, []

    def killing(path, **kwargs):
        unlink(path, **kwargs)
        calls.append(path)
        raise KilledError

    monkeypatch.setattr(Path, "unlink", killing)
    with pytest.raises(KilledError):
        remove_checkpoint(checkpoint_path(tmp_path, 2))
    monkeypatch.undo()
    assert newest(tmp_path) == 1
    save_checkpoint(checkpoint_path(tmp_path, 2), payload(2))
    assert newest(tmp_path) == 2


def test_every_truncation_of_the_newest_falls_back_with_a_warning(tmp_path):
    for round_ in (1, 2):
        save_checkpoint(checkpoint_path(tmp_path, round_), payload(round_))
    path = checkpoint_path(tmp_path, 2)
    content = path.read_bytes()
    cuts = [0, 1, 10, *range(64, len(content), len(content) // 40), len(content) - 1]
    for cut in cuts:
        path.write_bytes(content[:cut])
        with pytest.warns(UserWarning, match=r"round_000002.*going back"):
            found = latest_checkpoint(tmp_path, no_verify)
        assert found[0] == checkpoint_path(tmp_path, 1) and found[1]["round"] == 1


def test_truncation_is_noticed_without_a_checksum(tmp_path):
    save_checkpoint(checkpoint_path(tmp_path, 1), payload(1))
    path = checkpoint_path(tmp_path, 1)
    path.with_name(path.name + ".sha256").unlink()
    assert load_checkpoint(path)["round"] == 1
    content = path.read_bytes()
    for cut in range(0, len(content), len(content) // 40):
        path.write_bytes(content[:cut])
        with pytest.raises(DataError, match=r"round_000001\.pth"):
            load_checkpoint(path)


def test_a_flipped_bit_is_noticed(tmp_path):
    path = checkpoint_path(tmp_path, 1)
    save_checkpoint(path, payload(1))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="checksum"):
        load_checkpoint(path)


def test_a_checkpoint_whose_states_are_gone_is_skipped(tmp_path):
    for round_ in (1, 2, 3):
        save_checkpoint(checkpoint_path(tmp_path, round_), payload(round_))

    def verify(content: dict) -> None:
        if content["round"] > 1:
            raise DataError(f"state of round {content['round']} is missing")

    with pytest.warns(UserWarning, match="going back"):
        assert latest_checkpoint(tmp_path, verify)[1]["round"] == 1


def test_no_sound_checkpoint(tmp_path):
    assert latest_checkpoint(tmp_path / "none", no_verify) is None
    (tmp_path / "round_000001.pth").write_bytes(b"x")
    with pytest.warns(UserWarning):
        assert latest_checkpoint(tmp_path, no_verify) is None


class Evil:
    """Makes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (self.path,))


@pytest.mark.parametrize("writer", ["torch", "pickle"])
def test_a_malicious_pickle_is_refused(tmp_path, writer):
    path, pwned = checkpoint_path(tmp_path, 1), tmp_path / "pwned"
    content = {"state_dict": {}, "evil": Evil(str(pwned))}
    if writer == "torch":
        torch.save(content, path)
    else:
        path.write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(DataError, match=r"round_000001\.pth: cannot be read as a checkpoint"):
        load_checkpoint(path)
    with pytest.warns(UserWarning):
        assert latest_checkpoint(tmp_path, no_verify) is None
    assert not pwned.exists()


def test_what_is_no_checkpoint(tmp_path):
    with pytest.raises(DataError, match="no such checkpoint"):
        load_checkpoint(tmp_path / "round_000001.pth")
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(DataError, match="no 'state_dict'"):
        load_checkpoint(tmp_path / "list.pth")


def test_rounds_are_in_numerical_order(tmp_path):
    for round_ in (2, 1_000_000, 999_999, 10):
        save_checkpoint(checkpoint_path(tmp_path, round_), payload(1))
    (tmp_path / "best_unseen_mIoU.pth").touch()
    (tmp_path / "round_000003.pth.part").touch()
    assert [r for r, _ in checkpoints(tmp_path)] == [2, 10, 999_999, 1_000_000]


def test_a_checkpoint_can_be_moved_with_its_checksum(tmp_path):
    path = checkpoint_path(tmp_path / "a", 1)
    save_checkpoint(path, payload(1))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert load_checkpoint(checkpoint_path(tmp_path / "b", 1))["round"] == 1
    assert module.PATTERN.fullmatch(path.name)
