"""tools/train.py as a user calls it: the plan of a dry run, and damaged data."""

import shutil

import command_line


def test_a_dry_run_tells_the_plan_and_trains_nothing(small_config, tmp_path):
    options = ("--dry-run", "--work-dir", tmp_path / "run")
    wide = {"COLUMNS": "120"}
    run = command_line.run("train.py", small_config, *options, environment=wide)
    assert run.returncode == 0, run.stderr
    rows = {
        line.split("│")[1].strip(): line.split("│")[2].strip()
        for line in run.stdout.splitlines()
        if "│" in line
    }
    assert rows["clients"] == "2" and rows["training images"] == "8" and rows["rounds"] == "6"
    assert rows["test images"] == "unseen 5, seen 4"
    assert not (tmp_path / "run").exists()


def test_missing_data_and_damaged_images_are_told_without_a_traceback(small_config, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(small_config.parent, folder, ignore=shutil.ignore_patterns("run"))
    config = folder / small_config.name
    text = config.read_text().replace(str(small_config.parent), str(folder))
    config.write_text(text)
    nowhere = f"data_root={tmp_path / 'nowhere'}"
    missing = command_line.run("train.py", config, "--dry-run", "--cfg-options", nowhere)
    assert missing.returncode == 2
    assert str(tmp_path / "nowhere") in missing.stderr and "Traceback" not in missing.stderr

    for path in sorted((folder / "data" / "IDDAsmall").glob("*/Semantic/*.png")):
        path.write_bytes(path.read_bytes()[:-20])
    options = ("--work-dir", tmp_path / "run", "--cfg-options", "train_dataloader.num_workers=1")
    damaged = command_line.run("train.py", config, *options)
    assert damaged.returncode == 2
    assert ".png" in damaged.stderr and "Traceback" not in damaged.stderr
