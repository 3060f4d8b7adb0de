"""Given split files are used unchanged with synthetic images, and the demo trains on them."""

import json
from pathlib import Path

from command_line import run as tool

from fedseg.data_prep.paired_images import rendered_files
from fedseg.data_prep.split_rules import build_idda
from fedseg.data_prep.street_sets import IDDA
from fedseg.partition import write_split
from fedseg.partition.split_files import Split

ROOT = Path(__file__).parents[2]


def test_the_demo_runs_on_given_split_files(tmp_path):
    data, run, given = tmp_path / "data", tmp_path / "run", tmp_path / "given"
    train, test = build_idda(rendered_files(IDDA), ("heterogeneous", "rainy"), seed=5)
    train = Split(dict(list(train.users.items())[::12]))  # few clients and images: a fast test
    seen, unseen = (test.users[f"test_user_{kind}_domain"] for kind in ("same", "diff"))
    own = [pair for pair in seen if pair[0].split("/")[0] in train.users]
    test = Split({"test_user_same_domain": own, "test_user_diff_domain": unseen[::400]})
    write_split(given / "data" / "heterogeneous" / "rainy" / "train", train)
    write_split(given / "data" / "heterogeneous" / "rainy" / "test", test)
    prepared = tool(
        "prepare_idda.py",
        *("--root", data, "--synthetic", "--from", given),
        *("--setting", "rainy", "--distribution", "heterogeneous"),
        *("--limit-per-user", 2, "--limit-test", 1, "--size", "96x64"),
        cwd=ROOT,
    )
    assert prepared.returncode == 0, prepared.stderr
    trained = tool(
        "train.py",
        *("configs/demo.py", "--work-dir", run, "--cfg-options", f"data_root={data}"),
        *("train_cfg.max_rounds=1", "client_sampler.clients_per_round=2"),
        *("default_hooks.pictures=None", "train_dataloader.num_workers=0"),
        *(f"val_dataloader.{s}.dataset.pipeline.0.size=(64,96)" for s in ("seen", "unseen")),
        "train_dataloader.dataset.pipeline.0.crop_size=(64,96)",
        cwd=ROOT,
    )
    assert trained.returncode == 0, trained.stderr
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    assert set(results["final"]) == {"unseen", "seen", "seen_by_domain"}
    assert all(0 < entry["mIoU"] < 100 for entry in results["final"].values())
    assert all(entry["synthetic"] for entry in results["data"].values())
    assert results["data"]["train"]["clients"] == len(train.users) == 6
    record = json.loads((run / "history.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert {p["client"] for p in record["participants"]} <= set(train.users)
