"""Config copies are read without being executed."""

import os

import pytest
from mmengine.config import Config

from fedseg.errors import DataError
from fedseg.runs.config_copy import CONFIG_FILE, read_config_copy

PROGRAMS = (
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
    "a = 0x" + "f" * 5000,
)


def plain(value):
    """Tuples as lists: a copy does not keep them apart."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


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
    assert plain(read) == plain(loaded)
    assert read["val_dataloader"]["with space"] == {"batch_size": 4, "steps": []}


def test_a_program_is_refused_and_not_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run.py"
    for text in PROGRAMS:
        path.write_text(text)
        with pytest.raises(DataError, match=r"run\.py"):
            read_config_copy(path)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("value", ["null", "[1]", "{}", '"1"', '"infinity"', "1e999"])
def test_a_float_that_no_run_writes_is_the_files_fault(tmp_path, value):
    path = tmp_path / CONFIG_FILE
    path.write_text(f'{{"a": [{{"__float__": {value}}}]}}')
    with pytest.raises(DataError, match=r"config\.json: .*__float__"):
        read_config_copy(path)


@pytest.mark.parametrize("name", ["run.py", CONFIG_FILE])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match=rf"{name}: .*no regular file"):
        read_config_copy(tmp_path / name)
