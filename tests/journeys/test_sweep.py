"""A sweep with a model of one's own, its board and its worst clients; then plain PyTorch."""

import json

import given
from command_lines import ROOT, small
from doc_pages import blocks

PLAIN = """
import sys

import torch
from small_unet import SmallUNet

network = SmallUNet(num_classes=16)
checkpoint = torch.load(sys.argv[1], weights_only=True)
state = {name.removeprefix("network."): tensor for name, tensor in checkpoint["state_dict"].items()}
network.load_state_dict(state)
network.eval()
with torch.no_grad():
    print("logits", list(network(torch.zeros(1, 3, 64, 96)).shape))
"""


def test_a_sweep_leads_to_a_board_and_to_plain_pytorch(terminal, small_config):
    given.streets(small_config, terminal.folder / "data" / "demo_weather")
    for block in blocks(ROOT / "docs" / "own_model.md"):
        if block.name in ("small_unet.py", "weather_small_unet.py"):
            terminal.write(block.name, block.text)
    sweep = "fedseg sweep weather_small_unet.py --with fedavg --with silobn --seeds 0 --jobs 2"
    assert terminal.run(small(sweep)).count("finished after") == 2
    for run in ("fedavg", "silobn"):
        results = terminal.folder / f"work_dirs/weather_small_unet_{run}/seed0/results.json"
        assert json.loads(results.read_text())["completed_rounds"] == 1
    assert "finished after" not in terminal.run(small(sweep))  # nothing is trained again

    board = terminal.run("fedseg leaderboard work_dirs --out board")
    assert "SiloBN" in board
    page = (terminal.folder / "board" / "index.html").read_text(encoding="utf-8")
    assert "weather_small_unet" in page

    run = "work_dirs/weather_small_unet_silobn/seed0"
    tested = terminal.run(f"fedseg test {run} --trust small_unet.py")
    assert "worst mIoU" in tested and "T01_CN_A" in tested
    assert (terminal.folder / run / "clients.json").is_file()

    terminal.write("plain.py", PLAIN)
    output = terminal.run(f"python plain.py {run}/checkpoints/round_000001.pth")
    assert "logits [1, 16, 32, 48]" in output
