"""From the demo to a prediction of a photograph."""

import cv2
import given
from command_lines import parse, printed_commands, small

from fedseg.commands.demo import REAL_IMAGES


def test_the_demo_leads_to_a_photograph(terminal, is_new_user):
    if not is_new_user:
        given.demo_streets(terminal.folder)
    output = terminal.run(f"{small('fedseg demo')} train_cfg.val_initial=False")
    assert "predictions.png" in output
    assert (terminal.folder / "work_dirs" / "demo_weather" / "board" / "index.html").is_file()
    given.photograph(terminal.folder / "PHOTO.jpg", width=320, height=200)
    for line in printed_commands(output):
        arguments = parse(line)
        if "idda" not in line:  # real images
            terminal.run(line)
    assert arguments.methods == ["silobn", "fedasam", "swa"]
    labels = cv2.imread(str(terminal.folder / "predictions" / "labels" / "PHOTO.png"))
    assert labels.shape[:2] == (200, 320)


def test_the_demo_of_images_leads_to_real_ones():
    prepare, train = (parse(f"fedseg {command}") for command in REAL_IMAGES)
    assert prepare.download and str(train.config) == "cifar10_a005_fedasam_swa"
