"""The command ``fedseg``: it finds its sub-commands, and --help of none imports anything slow."""

import inspect
import os
import sys
from argparse import ArgumentTypeError

import pytest
from command_line import ROOT, python

from fedseg import cli
from fedseg.commands import main as command
from fedseg.config.descriptions import Description, read_description
from fedseg.data_prep.data_sets import DATA_SETS, command_of, import_family
from fedseg.errors import ConfigError, ResourceError

SLOW = ("mmengine", "numpy", "torch")
WORDS = [[name] for name in command.COMMANDS if name != "prepare"]
PREPARE = [name for name in DATA_SETS if command_of(name) == name]
WORDS += [["prepare", name] for name in (*PREPARE, "weights")]


@pytest.fixture
def fedseg(monkeypatch, capsys):
    """Runs ``fedseg WORDS`` in this process: standard output."""

    def run(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["fedseg", *words])
        command.main()
        return capsys.readouterr().out

    return run


def test_help_of_every_command_imports_nothing_slow():
    code = f"""
import sys
from fedseg.commands.main import main
for words in {WORDS!r}:
    sys.argv = ["fedseg", *words, "--help"]
    try:
        main()
    except SystemExit as end:
        assert end.code == 0, words
    assert not sys.modules.keys() & set({SLOW!r}), words
"""
    out = python(code, cwd=ROOT)
    for words in WORDS:
        assert f"usage: fedseg {' '.join(words)} " in out


def test_what_is_not_there_is_told_before_anything_slow_is_imported(tmp_path):
    lines = [["prepare", name] for name in PREPARE]
    lines += [["train", "idda_rainy"], ["test", "idda_rainy", "no.pth"], ["compare", "a", "b"]]
    lines += [["curvature", "no"], ["landscape", "line", "no", "no"], ["leaderboard", "no"]]
    lines += [["predict", "no", "-", "--out", "out"], ["test", "."]]
    code = f"""
import sys
from fedseg.commands.main import main
from fedseg.errors import DataError
for words in {lines!r}:
    sys.argv = ["fedseg", *words]
    try:
        main()
    except DataError as error:
        assert any(s in str(error) for s in ("does not exist", "no such checkpoint", "work dir of"))
        assert "torch" not in sys.modules, words
    else:
        raise AssertionError(words)
"""
    python(code, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_every_tool_of_the_repository_is_a_command():
    tools = {path.stem for path in (ROOT / "tools").glob("*.py")}
    assert {"train", "test", "prepare_idda"} <= tools <= {"_".join(words) for words in WORDS}


@pytest.mark.parametrize("name", DATA_SETS)
def test_the_module_of_a_data_set_has_its_name_its_options_and_its_function(name):
    """What the command has and what the function takes are the same."""
    family = import_family(name)
    parser = cli.parser(family.PURPOSE, family.DETAILS)
    family.add_arguments(parser)
    options = vars(parser.parse_args([]))
    assert options.pop("root") is None
    parameters = inspect.signature(family.prepare).parameters
    assert {"root": None, **options} == {p.name: p.default for p in parameters.values()}
    if name != command_of(name):
        assert parser.parse_args(["--dataset", name]).dataset == name


def test_the_folder_of_an_experiments_only_seed_is_its_run(tmp_path):
    folders = [tmp_path / "experiment" / f"seed{number}" for number in (0, 1)]
    for folder in folders:
        folder.mkdir(parents=True)
    (folders[0] / "history.jsonl").touch()
    assert cli.run_path(str(tmp_path / "experiment")) == folders[0]
    (folders[0] / "results.json").touch()
    assert cli.run_path(str(folders[0] / "results.json")) == folders[0]
    (folders[1] / "history.jsonl").touch()
    assert cli.run_path(str(folders[1])) == folders[1]
    with pytest.raises(ArgumentTypeError, match="has 2 runs"):
        cli.run_path(str(tmp_path / "experiment"))


def test_what_no_command_can_start_with_is_told(fedseg, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"'trian'.*'train'"):
        fedseg("trian")
    with pytest.raises(ConfigError, match=r"'Train'.*'train'"):
        fedseg("Train")
    with pytest.raises(ConfigError, match=r"'citiscapes'.*'cityscapes'"):
        fedseg("prepare", "citiscapes")
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    with pytest.raises(ResourceError, match="current folder was removed"):
        fedseg("list")


def test_a_dash_in_the_name_of_a_data_set_is_an_underscore(fedseg, capsys):
    with pytest.raises(SystemExit):
        fedseg("prepare", "mapillary-a", "--help")
    assert "fedseg prepare segmentation" in capsys.readouterr().out


def test_list_says_what_there_is_and_what_is_published(fedseg):
    algorithms = fedseg("list", "algorithms").splitlines()
    assert any(line.split()[0] == "SCAFFOLD" for line in algorithms if line.strip())
    rows = {line.split()[0]: line for line in fedseg("list", "idda_rainy").splitlines()[2:]}
    assert rows["fedasam"].endswith("class imbalance takes the same")
    assert rows["wima"].endswith("published with ResNet-20; untuned elsewhere")
    assert "released_split" not in rows  # of CIFAR
    lines = fedseg("list", "methods").splitlines()
    rows = {words[0]: line for line in lines if line.startswith("  ") and (words := line.split())}
    assert rows["swa"].endswith("Izmailov et al., UAI 2018")
    assert rows.keys() == {path.stem for path in (ROOT / "configs/methods").glob("*.py")}
    whole = "".join(fedseg("list", kind) for kind in ("settings", "methods", "models", "datasets"))
    assert "`" not in whole
    assert max(map(len, whole.splitlines())) < 140
    summary = fedseg("list").splitlines()
    assert len(summary) < 10 and summary[2].split()[:2] == [str(len(rows)), "methods"]


def test_a_method_is_described_by_its_docstring_which_is_not_executed(tmp_path):
    path = tmp_path / "mine.py"
    text = '"""Averages.\n\nPaper: Li et al., 2020.\n\nValues: ours.\n"""\nraise SystemExit\n'
    path.write_text(text, encoding="utf-8")
    assert read_description(path) == Description("Averages", "Li et al., 2020", "Values: ours")
    path.write_text("slot = 'loss'\n", encoding="utf-8")
    assert read_description(path) is None


def files_of(text: str) -> dict[str, str]:
    """Key -> file of what ``fedseg show`` prints."""
    lines = text.splitlines()[1:]
    return {line.split(" = ")[0]: line.split("  # ")[1].strip() for line in lines}


def test_show_names_the_file_of_each_value(fedseg):
    text = fedseg("show", "idda_rainy", "--with", "fedasam", "swa")
    files = files_of(text)
    assert text.startswith("# idda_rainy_fedasam_swa\n")
    assert files["optim_wrapper.rho"] == "methods/fedasam.py"
    assert files["train_dataloader.dataset.split"] == "settings/idda_rainy.py"
    assert files["algorithm.type"] == "settings/idda_rainy.py"


def test_show_tells_values_of_the_command_line(fedseg):
    options = ["optim_wrapper.rho=0.2", "train_cfg.max_rounds=3"]
    text = fedseg("show", "idda_rainy", "--with", "fedasam", "--cfg-options", *options)
    files = files_of(text)
    assert "optim_wrapper.rho = 0.2" in text and "train_cfg.max_rounds = 3" in text
    assert files["optim_wrapper.rho"] == files["train_cfg.max_rounds"] == "--cfg-options"
    assert files["optim_wrapper.eta"] == "methods/fedasam.py"
    with pytest.raises(ConfigError, match="--cfg-options: 'rho' is not of the form"):
        fedseg("show", "idda_rainy", "--cfg-options", "rho")


def test_show_of_a_key_that_is_not_there_is_an_error(fedseg):
    with pytest.raises(ConfigError, match=r"--only: .* has no 'avaraging' \(did you mean 'averag"):
        fedseg("show", "idda_rainy", "--with", "swa", "--only", "avaraging")


def test_show_tells_values_of_a_users_own_file(fedseg, tmp_path):
    own = tmp_path / "own.py"
    own.write_text('setting = "idda_rainy_fedasam_swa"\noptim_wrapper = dict(rho=0.1)\n')
    files = files_of(fedseg("show", str(own), "--only", "optim_wrapper"))
    assert files["optim_wrapper.rho"] == str(own)
    assert files["optim_wrapper.eta"] == "methods/fedasam.py"
