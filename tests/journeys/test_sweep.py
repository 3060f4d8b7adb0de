"""A sweep with a model of one's own, its board and its worst clients; then plain PyTorch."""

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
    sweep = small("fedseg sweep weather_small_unet.py --with fedavg --with silobn --seeds 0 1")
    assert "4 of 4" in terminal.run(sweep)
