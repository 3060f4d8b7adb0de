"""The pages on runs: getting started, looking at runs and data, using a model, the leaderboard."""

from functools import partial

import given
import pytest
from command_lines import small
from terminal import Terminal
from walk import skip, walk

# images as they are, instead of 1024 x 1856 pixels, in place of the setting's preparation
NO_PIPELINE = [
    f"{loader}.dataset.pipeline=[]"
    for loader in ("train_dataloader", "val_dataloader.unseen", "val_dataloader.seen")
]
SMALL_IDDA = f"train_dataloader.batch_size=2 train_dataloader.num_workers=0 {' '.join(NO_PIPELINE)}"


def run_small(line: str, more: str = "") -> partial:
    """In place of a command: another one, made small."""
    return partial(Terminal.run, line=f"{small(line)} {more}")


def test_getting_started(terminal, small_config, is_new_user):
    if not is_new_user:  # fewer images than those that the demo renders and corrupts
        given.shapes(terminal.folder)
    instead = {
        "fedseg prepare cifar --download": lambda terminal: given.cifar10(terminal.folder),
        "fedseg prepare idda": lambda terminal: given.streets(
            small_config, terminal.folder / "data" / "idda"
        ),
        "fedseg train idda_rainy_fedasam_swa": run_small(
            "fedseg train idda_rainy_fedasam_swa", SMALL_IDDA
        ),
        "fedseg sweep cifar10_a005 --with scaffold --seeds 0 1 2": run_small(
            "fedseg train cifar10_a005 --with scaffold"
        ),
    }
    walk(terminal, "docs/getting_started.md", instead)


# runs that the page on runs and splits compares, from elsewhere
COMPARED = {
    "camvid_fedavg": "fedseg train demo_weather",
    "fedavg": "fedseg train demo_shapes --work-dir work_dirs/fedavg",
}


def test_inspecting(terminal, small_config):
    given.shapes(terminal.folder)
    given.streets(small_config, terminal.folder / "data" / "demo_weather")
    given.streets(small_config, terminal.folder / "data" / "idda")
    setting = "demo_weather --cfg-options"
    for run in ("camvid_fedavg", "camvid_fedasam"):
        method = run.removeprefix("camvid_")
        terminal.run(small(f"fedseg train demo_weather --with {method} --work-dir work_dirs/{run}"))
