"""The suite from Python: what it returns, what it refuses, and the notebook that shows it."""

import ast
import json
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from command_line import python

import fedseg
from fedseg.data_prep import classification
from fedseg.data_prep.synthetic_shapes import write_shapes
from fedseg.errors import ConfigError, DataError
from fedseg.report.summary import print_summary

NOTEBOOK = Path(__file__).parents[1] / "docs" / "first_run.ipynb"


def test_importing_fedseg_imports_nothing_slow():
    code = "import fedseg, sys; print(*{'torch', 'numpy', 'mmengine'} & sys.modules.keys())"
    assert python(code).strip() == ""
    assert all(callable(getattr(fedseg, name)) for name in fedseg.__all__)


def test_the_stub_has_every_name():
    """Of ``__all__``, which editors and type checkers do not see: they are imported late."""
    tree = ast.parse(Path(fedseg.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert {node.names[0].asname for node in imports} == set(fedseg.__all__)


def test_a_run_is_read_and_evaluated_as_it_was(small_run, small_config, tmp_path):
    run = fedseg.read_run(small_run)
    assert run.results.completed_rounds == 6 and len(run.history) == 6
    assert run.metrics == {k: v for k, v in run.history[-1]["metrics"].items() if k in run.metrics}
    assert {"seen/mIoU", "unseen/mIoU"} <= set(run.metrics)
    checkpoint = small_run / "checkpoints" / "round_000006.pth"
    config = fedseg.load_config(small_config)
    done = fedseg.evaluate(config, checkpoint, out=tmp_path / "test")
    assert done.folder == tmp_path / "test" and all(path.is_file() for path in done.files)
    for name, value in done.metrics.items():
        assert value == run.metrics[name]


def test_a_run_has_the_history_of_its_results(small_run, tmp_path):
    for name in ("results.json", "config.json"):
        (tmp_path / name).write_bytes((small_run / name).read_bytes())
    content = (small_run / "history.jsonl").read_bytes()
    for cut in (content[:-20], content.replace(b'"round": 2', b'"round": 9')):
        (tmp_path / "history.jsonl").write_bytes(cut)
        with pytest.raises(DataError, match=r"history\.jsonl"):
            fedseg.read_run(tmp_path)


def test_evaluation_applies_or_refuses_what_it_is_given(small_run, small_config, tmp_path):
    config = fedseg.load_config(small_config)
    before, checkpoint = config.to_dict(), small_run / "checkpoints" / "round_000006.pth"
    few = {"test_dataloader": {"seen": config.val_dataloader["seen"]}}
    evaluate = partial(fedseg.evaluate, config, checkpoint, out=tmp_path / "test")
    done = evaluate(options=few, amp=True)
    assert not any("unseen" in domain for domain in done.results["domains"]) and done.results["amp"]
    assert config.to_dict() == before and not evaluate().results["amp"]
    for run, wrong in (
        (config, {"methods": ["swa"]}),
        (config, {"trust": ["json"]}),
        (small_run, {"methods": ["swa"]}),
        (small_run, {"amp": True}),
        (small_config, {"trust": ["json"]}),
    ):
        with pytest.raises(ConfigError, match=f"^evaluate: .*{next(iter(wrong))}"):
            fedseg.evaluate(run, checkpoint, out=tmp_path / "test", **wrong)
    with pytest.raises(ConfigError, match=r"^--cfg-options: model\.x"):
        evaluate(options={"model.x": 1})


def test_training_returns_its_run(small_config, tmp_path):
    options = {"train_cfg.max_rounds": 1, "averaging": None}
    run = fedseg.train(small_config, work_dir=tmp_path / "run", options=options, seed=3)
    assert (run.folder, run.results.seed, len(run.history)) == (tmp_path / "run", 3, 1)
    with pytest.raises(ConfigError, match="loaded"):
        fedseg.train(fedseg.load_config(small_config), seed=3)


def test_a_run_without_evaluation_is_returned(small_config, tmp_path, capsys):
    options = {"train_cfg.max_rounds": 1, "averaging": None, "val_dataloader": None}
    run = fedseg.train(small_config, work_dir=tmp_path / "run", options=options)
    assert (run.metrics, run.results.completed_rounds) == ({}, 1)
    assert fedseg.read_run(tmp_path / "run").history == run.history
    print_summary(tmp_path / "run")
    assert "fedseg test" not in capsys.readouterr().out


def test_mistakes_are_user_errors(tmp_path):
    here = {"data_root": str(tmp_path)}
    with pytest.raises(ConfigError, match=r"idda_rany.*'idda_rainy'"):
        fedseg.train("idda_rany")
    with pytest.raises(ConfigError, match=r"optim_wrapper\.roh"):
        fedseg.train("demo_shapes", ["fedsam"], options={"optim_wrapper.roh": 1, **here})
    with pytest.raises(ConfigError, match="checkpoint"):
        fedseg.evaluate("idda_rainy")
    with pytest.raises(DataError, match=r"nowhere\.pth"):
        fedseg.evaluate("idda_rainy", tmp_path / "nowhere.pth")
    with pytest.raises(ConfigError, match=r"'cifar11'.*'cifar10'"):
        fedseg.prepare("cifar11")
    with pytest.raises(ConfigError, match=r"idda.*'limit_pre_user'.*'limit_per_user'"):
        fedseg.prepare("idda", tmp_path, limit_pre_user=3)
    for option, value in {"limit_per_user": "3", "setting": ["rain"], "size": (64,)}.items():
        with pytest.raises(ConfigError, match=f"--{option.replace('_', '-')}.*: "):
            fedseg.prepare("idda", tmp_path, **{option: value})


def test_the_notebook_runs(tmp_path, monkeypatch):
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert "ROUNDS = 80\n" in code
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: plt.savefig("curves.png"))
    few = partial(write_shapes, train=600, test=100)
    monkeypatch.setattr(classification, "write_shapes", few)
    names: dict = {}
    exec(compile(code.replace("ROUNDS = 80", "ROUNDS = 2"), str(NOTEBOOK), "exec"), names)
    plt.close("all")
    assert (tmp_path / "curves.png").is_file()
    for run in names["runs"].values():
        assert np.isfinite(run.metrics["test/accuracy"]) and run.results.completed_rounds == 2
