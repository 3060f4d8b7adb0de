"""Code that a run imports: only what is trusted is executed, and messages say what to trust."""

import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import fedseg
from fedseg.errors import ConfigError
from fedseg.registry import ALGORITHMS, DATASETS, LOCAL_LOSSES, METRICS, MODELS
from fedseg.trust import how_to_trust, import_trusted, noted_parts, own_parts

OWN = """
from torch import nn

from fedseg.algorithms import FedAvg
from fedseg.core.local_loss import LocalLoss
from fedseg.datasets.idda import IDDADataset
from fedseg.evaluation.metrics import IoUMetric
from fedseg.registry import ALGORITHMS, DATASETS, LOCAL_LOSSES, METRICS, MODELS


@ALGORITHMS.register_module()
class OwnAverage(FedAvg):
    pass


@DATASETS.register_module()
class OwnStreets(IDDADataset):
    pass


@LOCAL_LOSSES.register_module()
class OwnLocalLoss(LocalLoss):
    pass


@METRICS.register_module()
class OwnIoU(IoUMetric):
    pass


@MODELS.register_module()
class OwnNetwork(nn.Conv2d):
    def __init__(self, num_classes):
        super().__init__(3, num_classes, 1)


@MODELS.register_module()
class OwnLoss(nn.CrossEntropyLoss):
    def __init__(self):
        super().__init__(ignore_index=255)
"""
NAMES = ("OwnAverage", "OwnStreets", "OwnLocalLoss", "OwnIoU", "OwnNetwork", "OwnLoss")
CONFIG = """
custom_imports = dict(imports=["own_things"])
algorithm = dict(type="OwnAverage")
local_loss = dict(type="OwnLocalLoss")
model = dict(
    type="Segmentor",
    network=dict(type="OwnNetwork"),
    num_classes=16,
    loss=dict(type="OwnLoss"),
)
__data = dict(type="OwnStreets", data_root={root!r})
__resize = [dict(type="ResizeLabel", size=(72, 128))]
train_dataloader = dict(
    batch_size=2,
    num_workers=0,
    dataset=dict(split="splits/train", **__data),
    partition=dict(type="NaturalPartition", key="users"),
)
__test = dict(split="splits/test", test_mode=True, pipeline=__resize, **__data)
val_dataloader = dict(
    seen=dict(batch_size=4, dataset=dict(users="test_user_same_domain", **__test))
)
val_evaluator = dict(type="OwnIoU")
client_sampler = dict(type="UniformSampler", clients_per_round=2)
optim_wrapper = dict(type="OptimWrapper", optimizer=dict(type="SGD", lr=0.2))
default_hooks = dict(pictures=None)
train_cfg = dict(max_rounds=1, val_interval=1)
"""


def forget(*modules: str) -> None:
    """Leave this process as a new one that has not imported modules of the user's own."""
    for module in modules:
        sys.modules.pop(module, None)
    for registry in (ALGORITHMS, DATASETS, LOCAL_LOSSES, METRICS, MODELS):
        for name in NAMES:
            registry.module_dict.pop(name, None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder; what is imported from it is forgotten afterwards."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    path, known = list(sys.path), set(sys.modules)
    yield tmp_path / "work"
    sys.path[:] = path
    own = [name for name in set(sys.modules) - known if name.split(".")[0].startswith("own_")]
    forget(*own)


@pytest.fixture
def write(folder: Path) -> Callable[[str, str], Path]:
    def write_file(name: str, text: str = "") -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


# ---------------------------------------------------------------- a run with parts of its own


@pytest.fixture
def trained(small_config: Path, folder: Path, write, run_tool) -> Path:
    """A run of the command line in the current folder; then its code is forgotten."""
    write("own_things.py", OWN)
    write("own_run.py", CONFIG.format(root=str(small_config.parent / "data")))
    code, out, err = run_tool("train", "own_run.py", "--work-dir", "run", "--quiet")
    assert code == 0, err
    assert "fedseg test run --trust own_things.py\n" in out
    forget("own_things")
    sys.path.remove(str(folder))
    return Path("run")


COMMANDS = {
    "test": ["run", "--pictures", "0"],
    "predict": ["run", "-", "--out", "predictions"],
    "export": ["run", "--format", "onnx"],
    "profile": ["run"],
    "curvature": ["run", "--quantities", "loss", "--samples", "2"],
    "leaderboard": ["verify", "run"],
}


def test_every_command_says_what_to_trust_and_then_does_its_work(trained, run_tool):
    """In the folder where the run was trained, as the message says it, without PYTHONPATH."""
    for name, words in COMMANDS.items():
        code, _, err = run_tool(name, *words)
        assert code == 2 and "own_things" not in sys.modules
        assert "is not a class of fedseg: it is code of own_things" in err
        command = shlex.split(err.splitlines()[-1].partition("if you trust it: ")[2])
        assert command[1:] == [name, *words, "--trust", "own_things.py"]
        code, _, err = run_tool(*command[1:])
        assert code == 0, err
        forget("own_things")
    code, _, err = run_tool("compare", "run", "run/results.json", "--out", "comparison")
    assert code == 0 and "own_things" not in sys.modules, err


def test_a_run_is_read_with_what_it_may_execute(trained, folder, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["notebook"])
    with pytest.raises(ConfigError, match=r"trust it: trust=\['own_things.py'\]"):
        fedseg.evaluate(trained)
    assert "own_things" not in sys.modules
    run = fedseg.read_run(trained, trust="own_things.py")
    monkeypatch.chdir(folder)
    assert fedseg.evaluate(run).metrics == run.metrics
    assert fedseg.predict(run, out="predictions").files
    assert fedseg.profile(run)["parameters"] == 4 * 16


def test_what_is_trained_in_this_process_needs_no_trust(small_config, write, folder, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["notebook"])
    write("own_things.py", OWN)
    path = write("own_run.py", CONFIG.format(root=str(small_config.parent / "data")))
    config = fedseg.load_config(path)
    config.pop("work_dir")
    run = fedseg.train(config)  # of a config that has none
    assert run.folder == Path("work_dirs/run") and run.trust == (str(folder / "own_things.py"),)
    assert fedseg.evaluate(run).metrics == run.metrics


# ---------------------------------------------------------------- what is imported


def test_a_file_is_imported_as_the_module_that_the_run_names(write, folder):
    path = write("own_file.py", "import sys\nBESIDE = 'own_other' in sys.modules\n")
    write("own_other.py")
    before = list(sys.path)
    assert import_trusted("own_file.py", ["json", "own_file"], folder / "run") == {"own_file"}
    assert sys.modules["own_file"].__file__ == str(path) and sys.path == before
    assert import_trusted([path], ["own_file"], folder / "run") == {"own_file"}  # once
    for trust, named, words in (
        ("own_none.py", ["own_none"], "no such file"),
        ("own_other.py", ["own_file"], "the run imports own_file, not own_other"),
        ("own_other.py", [], "the run imports no module of its own, not own_other"),
        (write("lib/own_file.py"), ["own_file"], "has imported own_file from .*rename"),
        (write("run/own_inside.py"), ["own_inside"], "is in the run's folder: copy it"),
        ("own_nothing", ["own_nothing"], "is not a FILE.py, a folder or an installed module"),
    ):
        with pytest.raises(ConfigError, match=rf"^--trust: .*{words}"):
            import_trusted([trust], named, folder / "run")
    assert "own_other" not in sys.modules and "own_inside" not in sys.modules


def test_a_file_that_needs_others_says_that_its_folder_is_to_be_trusted(write, folder):
    write("lib/own_user.py", "import own_used\n")
    write("lib/own_used.py")
    with pytest.raises(ConfigError, match=rf"'own_used': .*--trust {folder / 'lib'}$"):
        import_trusted("lib/own_user.py", ["own_user"], folder / "run")
    assert "own_user" not in sys.modules
    assert import_trusted("lib", ["own_user"], folder / "run") == {"own_user", "own_used"}


def test_of_a_folder_the_modules_that_the_run_names_are_imported(write, folder):
    write("lib/own_package/__init__.py")
    write("lib/own_package/part.py", "from own_package import base\n")
    write("lib/own_package/base.py")
    write("lib/own_single.py")
    write("lib/own_unnamed.py", "raise RuntimeError\n")
    write("lib/json.py", "raise RuntimeError\n")
    before = list(sys.path)
    named = ["own_package.part", "own_single", "own_elsewhere"]
    modules = import_trusted("lib", named, folder / "run")
    package = {"own_package", "own_package.part", "own_package.base"}
    assert modules == {*package, "own_single"} and "own_unnamed" not in sys.modules
    assert sys.path == [*before, str(folder / "lib")]  # it hides nothing from now on
    with pytest.raises(ConfigError, match="this process has imported json from"):
        import_trusted("lib", ["json"], folder / "run")


# ---------------------------------------------------------------- what is noted and said


def test_own_parts_are_files_or_the_folder_of_several(write, folder):
    def parts(*names: str) -> dict[str, str]:
        return own_parts({"custom_imports": {"imports": [*names]}})

    write("a/own_alone.py")
    write("b/own_first.py", "import own_second\n")
    write("b/own_second.py")
    write("own_pack/__init__.py")
    write("own_pack/part.py")
    for place in ("a", "b", "."):
        import_trusted(place, ["own_alone", "own_first", "own_pack.part"], folder / "run")
    assert parts("own_alone", "json", "pytest") == {"own_alone": "a/own_alone.py"}
    assert parts("own_first") == {"own_first": "b"}
    assert parts("own_pack.part") == {"own_pack.part": "."}
    assert own_parts({"model": {"network": {"type": "EncoderDecoder"}}}) == {}
    MODELS.import_from_location(), MODELS.parent.import_from_location()
    heads = {"decode_head": [{"type": "PSPHead"}, {"type": "FCNHead"}]}
    assert own_parts({"model": heads}) == {"mmseg.models": "mmseg.models"}
    for odd in (None, {}, {"custom_imports": "x"}, {"custom_imports": {"imports": "x"}}):
        assert own_parts(odd or {}) == {}


def test_advice_names_what_is_there(write, folder, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["fedseg leaderboard", "verify", "a run"])
    run = write("a run/own_parts.json", '{"own_a": "lib/own_a.py", "own_b": "b"}').parent
    assert noted_parts(run) == {"own_a": "lib/own_a.py", "own_b": "b"}
    named = ["own_a", "own_b", "own_c"]
    assert "trust its file or folder with --trust if you have it" in how_to_trust(run, named, [])
    write("lib/own_a.py"), write("b/own_b.py"), write("own_c.py")
    advice = how_to_trust(run, named, [])
    assert advice.endswith("leaderboard verify 'a run' --trust lib/own_a.py b own_c.py")
    assert how_to_trust(run, named, ["own_a", "own_c"]).endswith("--trust b")
    assert how_to_trust(run, ["json"], []).endswith("--trust json")
    assert how_to_trust(run, named, named) == "no module that the run imports registers it"
    write("a run/own_d.py")
    write("a run/own_parts.json", '{"own_d": "a run/own_d.py", "own_c": 3}')
    assert noted_parts(run) == {}
    assert "--trust if you have it" in how_to_trust(run, ["own_d"], [])
