"""The pages on runs: getting started, looking at runs and data, using a model, the leaderboard."""

import json
import shutil

import given
import pytest
import toyresults
from command_lines import small
from terminal import Terminal
from walk import add, skip, walk


def test_getting_started(terminal, small_config, is_new_user):
    def give_cifar10(terminal: Terminal, line: str) -> None:
        given.cifar10(terminal.folder)

    def give_idda(terminal: Terminal, line: str) -> None:
        given.streets(small_config, terminal.folder / "data" / "idda")

    def train_one_seed(terminal: Terminal, line: str) -> None:
        terminal.run(small("fedseg train cifar10_a005 --with scaffold"))

    if not is_new_user:  # fewer images than those that the demo renders and corrupts
        given.shapes(terminal.folder)
    instead = {
        "fedseg prepare cifar --download": give_cifar10,
        "fedseg prepare idda": give_idda,
        "fedseg train idda_rainy_fedasam_swa": add(given.FEW_IMAGES),
        "fedseg sweep cifar10_a005 --with scaffold --seeds 0 1 2": train_one_seed,
    }
    walk(terminal, "docs/getting_started.md", instead)
    run = terminal.folder / "work_dirs" / "demo_images" / "seed0"
    final = json.loads((run / "results.json").read_text())["final"]
    assert len(final["corrupted"]["corruptions"]) == 5
    tested = terminal.run("fedseg test work_dirs/demo_images")
    assert f"{final['test']['accuracy']:.2f}" in tested  # the model and the images of training


@pytest.mark.new_user
def test_inspecting(terminal, small_config):
    folder = terminal.folder
    given.shapes(folder)
    given.cifar10(folder)
    for root in ("demo_weather", "idda"):
        given.streets(small_config, folder / "data" / root)
    terminal.run(small("fedseg train demo_weather --work-dir work_dirs/camvid_fedavg"))
    terminal.run(small("fedseg train demo_shapes --work-dir work_dirs/fedavg"))
    leaderboard = "demo_leaderboard_"
    for run, copies in {
        "camvid_fedavg": ["camvid_fedasam"],
        "fedavg": ["fedprox", "scaffold"],
        "scaffold": [f"{leaderboard}fedavg/seed0", f"{leaderboard}silobn_fedasam_swa/seed0"],
    }.items():
        for copy in copies:
            shutil.copytree(folder / "work_dirs" / run, folder / "work_dirs" / copy)
    instead = {
        "fedseg sweep $setting": skip,  # 24 runs
        "fedseg sweep demo_leaderboard": skip,
        "fedseg compare work_dirs/by_client": skip,
        "fedseg splits camvid --pixels": skip,
        "fedseg browse idda_rainy": add(given.FEW_CLIENTS),
    }
    walk(terminal, "docs/inspecting.md", instead)


@pytest.mark.new_user
def test_using_a_model(terminal, small_config, is_new_user):
    for name in ("street.jpg", "photos/night.jpg", "photos/day.png"):
        given.photograph(terminal.folder / name)
    for root in ("demo_weather", "idda"):
        given.streets(small_config, terminal.folder / "data" / root)
    small_input = given.FEW_CLIENTS
    if not is_new_user:
        small_input = f"{given.FEW_IMAGES} --size 64x128 --batch-size 1"
    instead = {
        "fedseg prepare idda": skip,  # test_demo.py renders
        "fedseg profile idda_rainy": add(small_input),
    }
    walk(terminal, "docs/using_a_model.md", instead)
    predictions = terminal.folder / "predictions"
    assert {"street.png", "night.png", "day.png"} <= {p.name for p in predictions.rglob("*.png")}


@pytest.mark.new_user
def test_medical(terminal):
    small_images = "--cfg-options train_cfg.max_rounds=1 train_dataloader.batch_size=40"
    instead = {
        "fedseg prepare fundus --root": add("--size 32"),
        "fedseg train demo_fundus": add(small_images),
        "fedseg prepare fundus": skip,  # tests/data_prep/test_medical.py prepares small copies
        "fedseg prepare polyps": skip,
        "fedseg prepare prostate": skip,
    }
    walk(terminal, "docs/medical.md", instead)


def test_leaderboard(terminal):
    results = toyresults.results("cifar10_a005_c5_cnn", {"test/accuracy": 71.5})
    toyresults.write(terminal.folder / "work_dirs" / "fedavg", results)
    (terminal.folder / "another" / "folder").mkdir(parents=True)
    walk(terminal, "docs/leaderboard.md", {"fedseg train idda_rainy_fedasam_swa --seed": skip})
    table = terminal.run("fedseg leaderboard work_dirs --all")
    assert "71.50" in table and "69.24" in table  # beside the published FedAvg
