"""fedseg compare: tables on the terminal, Markdown and a picture in a folder, one-line errors."""

import json
from pathlib import Path

import numpy as np
import toyresults
from PIL import Image

from fedseg.report.figures import COLORS
from fedseg.units import format_bytes


def run_of(folder: Path, value: float, **changes) -> Path:
    return toyresults.write(folder, toyresults.idda(value, **changes))


def colors_in(path: Path) -> list[int]:
    picture = np.asarray(Image.open(path).convert("RGB")).reshape(-1, 3)
    colors = [[int(color[i : i + 2], 16) for i in (1, 3, 5)] for color in COLORS]
    return [int((picture == rgb).all(-1).sum()) for rgb in colors]


def test_two_runs(run_tool, tmp_path):
    prox = {"type": "FedProx", "mu": 0.1}
    one = run_of(tmp_path / "fedavg", 50.0, evaluations=1)
    other = run_of(tmp_path / "fedprox", 52.5, evaluations=1, algorithm=prox)
    code, out, err = run_tool("compare", one, other, "--out", tmp_path / "comparison")
    assert code == 0 and err == ""
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "algorithm.mu — 0.1" in lines
    assert "algorithm.type FedAvg FedProx" in lines
    at = next(i for i, line in enumerate(lines) if line.startswith("mIoU, unseen A 50.00"))
    assert lines[at + 1] == "B 52.50 +2.50 52.50 +2.50"
    assert "±" not in out and "single run" in out
    assert "\x1b" not in out  # piped: no colors
    folder = tmp_path / "comparison"
    assert out.splitlines()[-2:] == [str(folder / "compare.md"), str(folder / "curves.png")]
    text = (folder / "compare.md").read_text(encoding="utf-8")
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "| algorithm.mu | — | 0.1 |" in rows
    assert "![training loss and metrics over rounds](curves.png)" in text
    assert not list(folder.glob("*.tmp"))
    pixels = colors_in(folder / "curves.png")
    assert min(pixels[:2]) > 300 and max(pixels[2:]) == 0


def test_without_out_nothing_is_written_where_the_runs_are(run_tool, tmp_path, monkeypatch):
    one, other = (run_of(tmp_path / "runs" / seed, 50.0) for seed in ("seed0", "seed1"))
    before = sorted((tmp_path / "runs").rglob("*"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    code, out, err = run_tool("compare", one, other)
    assert code == 0 and err == ""
    assert sorted((tmp_path / "runs").rglob("*")) == before
    written = [str(Path("comparison") / name) for name in ("compare.md", "curves.png")]
    assert out.splitlines()[-2:] == written
    assert all(Path(name).is_file() for name in written)


def test_three_runs_of_which_one_is_not_finished(run_tool, wide_run, tmp_path):
    lines = (wide_run / "history.jsonl").read_text().splitlines(keepends=True)
    stopped = tmp_path / "stopped"
    stopped.mkdir()
    (stopped / "history.jsonl").write_text("".join(lines[:4]))
    config = (wide_run / "config.json").read_text()
    (stopped / "config.json").write_text(config.replace('"rho": 0.1', '"rho": 0.3'))
    code, out, err = run_tool("compare", wide_run, stopped, wide_run, "--out", tmp_path / "out")
    assert code == 0 and err == ""
    rows = [line.split() for line in out.splitlines()]
    assert ["optim_wrapper.rho", "0.1", "0.3", "0.1"] in rows
    assert "B is not finished (4 of 6 rounds)" in out
    assert "(0.67)" in out  # of the rounds
    assert min(colors_in(tmp_path / "out" / "curves.png")[:3]) > 100


def test_of_many_runs_each_has_a_row(run_tool, tmp_path):
    runs = [run_of(tmp_path / name, 50.0) for name in "ab"]
    runs += [run_of(tmp_path / "c", 51.0, algorithm={"type": "FedProx", "mu": 0.1})]
    runs += [run_of(tmp_path / "d", 52.0, algorithm={"type": "FedProx", "mu": 0.01})]
    code, out, err = run_tool("compare", *runs, "--out", tmp_path / "out")
    assert code == 0 and err == ""
    lines = [" ".join(line.split()) for line in out.splitlines()]
    at = lines.index("algorithm.mu — A, B")
    assert lines[at + 1 : at + 3] == ["0.1 C", "0.01 D"]
    at = lines.index("algorithm.type FedAvg A, B")
    assert lines[at + 1] == "FedProx C, D"
    costs = lines[lines.index("cost") :]
    row = next(line for line in costs if line.startswith("D "))
    reference = next(line for line in costs if line.startswith("A "))
    assert "(1.00)" in row and "(" not in reference
    text = (tmp_path / "out" / "compare.md").read_text(encoding="utf-8")
    tables = [block for block in text.split("\n\n") if block.startswith("|")]
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1


def test_until_a_target_is_reached(run_tool, small_run, tmp_path):
    records = [json.loads(line) for line in (small_run / "history.jsonl").read_text().splitlines()]
    reached = [
        record["round"] for record in records if record.get("metrics", {}).get("seen/mIoU", -1) >= 5
    ]
    code, out, err = run_tool("compare", small_run, small_run, "--out", tmp_path, "--until", 5)
    assert code == 0 and err == "" and reached
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert "rounds until 5 traffic" in " ".join(rows)
    row = next(row for row in rows if row.startswith("mIoU, seen"))
    sent = sum(r["bytes_down"] + r["bytes_up"] for r in records if r["round"] <= reached[0])
    assert f" {reached[0]} {format_bytes(sent)}" in row
    code, out, _ = run_tool("compare", small_run, small_run, "--out", tmp_path, "--until", 101)
    assert "not reached —" in " ".join(out.split())
    for wrong in ("nan", "half"):
        code, _, err = run_tool("compare", small_run, small_run, "--until", wrong)
        assert code == 2 and "--until" in err and "Traceback" not in err


def test_errors_are_one_line(run_tool, tmp_path):
    one = run_of(tmp_path / "a", 50.0)
    (tmp_path / "file").write_text("")
    newer = json.loads((one / "results.json").read_text())
    newer["schema_version"] = 99
    toyresults.write(tmp_path / "newer", newer)
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "results.json").write_text("{")
    for arguments, field in (
        ((one, tmp_path / "none"), str(tmp_path / "none")),
        ((one, tmp_path / "empty"), str(tmp_path / "empty")),
        ((one, tmp_path / "broken"), "results.json"),
        ((one, tmp_path / "newer"), "schema_version"),
        ((one, one, "--out", tmp_path / "file" / "x"), str(tmp_path / "file")),
        ((one, one, "--out", tmp_path / ("x" * 300)), "File name too long"),
    ):
        code, _, err = run_tool("compare", *arguments)
        assert code == 2 and field in err
        assert err.startswith("error: ") and len(err.splitlines()) == 1
