"""tools/test.py: the same figures as training's last evaluation, and kind errors."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest

from fedseg.errors import UserError
from fedseg.files import sha256


@pytest.fixture
def checkpoint(small_run) -> Path:
    return small_run / "checkpoints" / "round_000006.pth"


def test_figures_equal_those_of_training_without_its_data(
    run_tool, small_config, small_run, tmp_path
):
    copy = tmp_path / "copy"
    shutil.copytree(small_run, copy / "run", ignore=shutil.ignore_patterns("pictures", "test"))
    shutil.copytree(small_config.parent / "data", copy / "data")
    shutil.rmtree(copy / "data" / "splits" / "train")
    shutil.copy(small_config.parent / "small_network.py", copy)
    config = copy / "small.py"
    text = small_config.read_text()
    config.write_text(text.replace(str(small_config.parent / "data"), str(copy / "data")))
    for image in (copy / "data" / "IDDAsmall" / "T01_CN_A" / "RGB").glob("[0-3]_*.jpg"):
        image.unlink()
    path = copy / "run" / "checkpoints" / "round_000006.pth"

    code, out, err = run_tool("test", config, path, "--pictures", 1)
    assert code == 0, err
    folder = copy / "run" / "test" / "round_000006"
    tested = json.loads((folder / "test_results.json").read_text())
    trained = json.loads((small_run / "results.json").read_text())
    images = {"unseen": 5, "seen": 4, "seen_by_domain": 4}
    expected = {d: {**entry, "images": images[d]} for d, entry in trained["final"].items()}
    assert tested["domains"] == expected  # every figure and class, exactly
    assert tested["checkpoint_sha256"] == sha256(path)
    assert tested["round"] == 6
    assert tested["averaged"] is True
    for label in ("unseen", "seen standard", "seen by_domain"):
        assert f"\n{label} " in out
    assert f"{trained['final']['seen_by_domain']['mIoU']:.2f}" in out
    tables = json.loads((small_run / "clients.json").read_text())["sets"]
    assert tested["groups"] == tables and "seen_by_domain" in tables
    for name, label in {"seen": "seen standard", "seen_by_domain": "seen by_domain"}.items():
        order = sorted(tables[name], key=lambda domain, name=name: tables[name][domain]["mIoU"])
        worst = ", ".join(f"{domain} {tables[name][domain]['mIoU']:.2f}" for domain in order[:3])
        assert f"worst mIoU, {label}: {worst}\n" in out
    assert len(list((folder / "pictures" / "seen_by_domain").glob("*.png"))) == 1
    rows = list(csv.reader((folder / "iou_by_class.csv").open()))
    assert rows[0] == ["class", "unseen", "seen", "seen_by_domain"]
    assert len(rows) == 1 + 16
    road = {d: float(v) for d, v in zip(rows[0][1:], rows[1][1:], strict=True)}
    assert rows[1][0] == "road"
    assert road == {d: entry["IoU"]["road"] for d, entry in trained["final"].items()}
    assert rows[2] == ["sidewalk", "", "", ""]  # in no image


NO_TESTS = [f"{key}=None" for key in ("val_dataloader", "val_evaluator")]


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("none.pth", [], "none.pth: no such checkpoint"),
        ("", ["model.network.width=5"], "another model.*size mismatch .*network.0.weight.*4 more"),
        ("", NO_TESTS, "nothing to test"),
    ],
)
def test_errors_are_one_line(run_tool, small_config, checkpoint, tmp_path, name, options, words):
    path = tmp_path / name if name else checkpoint
    more = ["--cfg-options", *options] if options else []
    code, _, err = run_tool("test", small_config, path, "--out", tmp_path, *more)
    assert code == UserError.exit_code
    assert re.search(words, err) and len(err.splitlines()) == 1
