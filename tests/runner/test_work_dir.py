"""A work dir holds one run: it is continued, overwritten, or refused."""

from pathlib import Path
from typing import Any

import pytest
import toyseg

from fedseg.errors import ConfigError, DataError, ResourceError
from fedseg.runner.runner import FederatedRunner
from fedseg.runner.work_dir import unfinished


def settings(folder: Path, **changes: Any) -> dict[str, Any]:
    """A run of one round."""
    train = {"max_rounds": 1, "local_epochs": 1}
    return toyseg.settings(folder, **{**toyseg.PLAIN, "train_cfg": train, **changes})


def test_a_folder_that_holds_a_run_is_refused(tmp_path):
    config = settings(tmp_path)
    work_dir = Path(config["work_dir"])
    assert not unfinished(work_dir)
    toyseg.train(config)
    before = (work_dir / "results.json").read_bytes()
    with pytest.raises(ConfigError, match=r"work_dir: .* holds a run: .*--resume.*--overwrite"):
        toyseg.train(config)
    assert (work_dir / "results.json").read_bytes() == before
    assert not unfinished(work_dir), "it is finished"
    (work_dir / "results.json").unlink()
    assert unfinished(work_dir)
    with pytest.raises(ConfigError, match="holds a run"):
        toyseg.train(config)


def test_overwrite_deletes_the_run_and_nothing_else(tmp_path):
    work_dir = tmp_path / "run"
    (work_dir / "notes").mkdir(parents=True)
    (work_dir / "mine.py").write_text("mine = 1\n")
    toyseg.train(settings(tmp_path, experiment_name="first"))
    (work_dir / "test" / "round_000001").mkdir(parents=True)
    assert (work_dir / "first.py").exists()
    toyseg.train(settings(tmp_path, experiment_name="mine", overwrite=True))
    assert not (work_dir / "test").exists() and not (work_dir / "first.py").exists()
    assert (work_dir / "mine.py").read_text() == "mine = 1\n" and (work_dir / "notes").is_dir()
    with pytest.raises(ConfigError, match="overwrite: contradicts resume"):
        toyseg.train(settings(tmp_path, overwrite=True), resume=True)


def test_a_mistake_overwrites_nothing(tmp_path):
    toyseg.train(settings(tmp_path))
    faulty = settings(tmp_path, overwrite=True, load_from=str(tmp_path / "missing.pth"))
    with pytest.raises(DataError, match=r"missing\.pth"):
        toyseg.train(faulty)
    assert (tmp_path / "run" / "results.json").exists()


def test_rounds_without_a_checkpoint_are_trained_again(tmp_path):
    """A run that was killed before its first checkpoint; a foreign file of that name stays."""
    config = settings(tmp_path)
    history = tmp_path / "run" / "history.jsonl"
    history.parent.mkdir()
    history.write_text("a diary\n")
    with pytest.raises(DataError, match=r"history\.jsonl, line 1: is damaged"):
        toyseg.train(config)
    history.unlink()
    toyseg.train(config)
    whole = toyseg.history(config)
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        path.unlink()
    with pytest.raises(ConfigError, match=r"--resume: .* has results\.json, but no checkpoint"):
        toyseg.train(config, resume=True)
    (tmp_path / "run" / "results.json").unlink()
    toyseg.train(config, resume=True)
    assert len(toyseg.history(config)) == len(whole)


def test_a_run_that_ends_early_says_how_it_goes_on(tmp_path, monkeypatch):
    config = settings(tmp_path)

    def build(run: FederatedRunner) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(FederatedRunner, "build_federation", build)
        with pytest.raises(ResourceError, match="nothing saved: rerun the command"):
            toyseg.train(config)
    toyseg.train(config)
    monkeypatch.setattr(FederatedRunner, "build_federation", build)
    with pytest.raises(ResourceError, match="to 1 are saved: the same command with --resume cont"):
        toyseg.train(config, resume=True)
