"""The scripts in tools/ of a clone, on small trees in the layout of the real data sets."""

import given
import numpy as np
from command_lines import ROOT, small
from terminal import Terminal


def clone(terminal: Terminal) -> None:
    """What a clone has, in the terminal's folder."""
    for name in ("tools", "configs"):
        (terminal.folder / name).symlink_to(ROOT / name)


def test_train(terminal, small_config):
    clone(terminal)
    given.streets(small_config, terminal.folder / "data" / "idda")
    line = small("python tools/train.py configs/idda_rainy_fedasam_swa.py")
    output = terminal.run(f"{line} {given.FEW_IMAGES}")
    assert "idda_rainy_fedasam_swa" in output and "mIoU" in output


def test_prepare_cityscapes(terminal):
    """A sample of the data: two towns to train on, one to test on."""
    clone(terminal)
    root = terminal.folder / "data" / "cityscapes"
    ids = np.repeat(np.array([[7, 8, 11, 26]], np.uint8), 16, axis=0).repeat(8, axis=1)
    for town in ("train/aachen", "train/bochum", "val/frankfurt"):
        for number in range(10):
            name = f"{town}/{town.split('/')[1]}_{number:06d}_000019"
            image = np.full((*ids.shape, 3), 20 * number, np.uint8)
            given.save(root / "leftImg8bit" / f"{name}_leftImg8bit.png", image)
            given.save(root / "gtFine" / f"{name}_gtFine_labelIds.png", ids)
    line = "python tools/prepare_cityscapes.py --distribution heterogeneous"
    assert "--unofficial" in terminal.fail(line)
    terminal.run(f"{line} --unofficial")
    assert list((root / "splits").rglob("*.json"))
