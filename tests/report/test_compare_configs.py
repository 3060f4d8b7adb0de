"""Config copies are read without being executed, and compared key by key."""

import pytest
from mmengine.config import Config

from fedseg.errors import DataError
from fedseg.report.compare_configs import MISSING, differing, flat, read_config_copy


def test_a_copy_is_read_as_mmengine_wrote_it(tmp_path):
    content = dict(
        model=dict(type="CNN", num_classes=10, weights=None, scale=-0.5),
        custom_hooks=[dict(type="A", rounds=(1, 2)), dict(type="B", share=True)],
        val_dataloader={"with space": dict(batch_size=4, steps=[]), "seen": dict(mean=[0.1, 1e-3])},
    )
    path = tmp_path / "run.py"
    Config(content).dump(path)
    read = read_config_copy(path)
    loaded = Config.fromfile(path).to_dict()
    assert flat(read) == flat(loaded)
    assert read["val_dataloader"]["with space"] == {"batch_size": 4, "steps": []}


@pytest.mark.parametrize(
    "text",
    [
        "model = __import__('os').system('touch executed')",
        "import os",
        "a = dict([(1, 2)])",
        "a = dict(**b)",
        "a = {**b}",
        "a = b",
        "a.b = 1",
        "a = (",
        "a = [i for i in range(3)]",
        "a = '\0'",
        "a = " + "[" * 5000,
    ],
)
def test_a_program_is_refused_and_not_executed(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run.py"
    path.write_text(text)
    with pytest.raises(DataError, match=r"run\.py: is not the config copy of a run"):
        read_config_copy(path)
    assert not (tmp_path / "executed").exists()


def test_flat_keys():
    config = {
        "model": {"type": "CNN", "sizes": [1, 2], "empty": {}},
        "custom_hooks": [{"type": "A"}, {"type": "B", "more": {"x": 1}}],
        "work_dir": "somewhere",
        "test_dataloader": {"batch_size": 3},
        "randomness": {"seed": 3, "deterministic": True},
    }
    assert flat(config) == {
        "model.type": "CNN",
        "model.sizes": [1, 2],
        "model.empty": {},
        "custom_hooks.0.type": "A",
        "custom_hooks.1.type": "B",
        "custom_hooks.1.more.x": 1,
        "randomness.deterministic": True,
    }


def test_only_what_differs_is_left():
    rows = differing([{"a": 1, "b": [1], "c": None}, {"a": 1.0, "b": [2], "d": "x"}])
    assert rows == {"b": ([1], [2]), "c": (None, MISSING), "d": (MISSING, "x")}
    assert repr(MISSING) == "—"
    assert differing([{"a": 1}, {"a": 1}, {"a": 2}]) == {"a": (1, 1, 2)}
