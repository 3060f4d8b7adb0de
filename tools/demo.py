"""Demo: python tools/demo.py. Renders streets, trains configs/demo.py on them, shows the results.

It takes minutes on two CPU cores. Stopped (Ctrl-C) and started again, it continues.
"""

import argparse
import os
import sys
from pathlib import Path

from fedseg import cli

ROOT = Path(__file__).resolve().parents[1]
CONFIG = Path("configs/demo.py")
WORK_DIR = Path("work_dirs/demo")
REAL_CONFIG = Path("configs/idda_rainy_silobn_fedasam_swa.py")  # the same on the real images

IMAGE_SIZE = (464, 256)  # width, height, as in the config


def main() -> int:
    argparse.ArgumentParser(description=__doc__.split(".", 1)[1].strip()).parse_args()
    from fedseg.data_prep.demo_streets import prepare_demo_streets
    from fedseg.report.summary import print_summary
    from fedseg.runner.experiment import load_config, train, unfinished

    os.chdir(ROOT)  # the config's data root is relative to it
    config = load_config(CONFIG, work_dir=WORK_DIR)
    root = Path(config.train_dataloader.dataset.data_root)
    print(f"street scenes in {root}", file=sys.stderr, flush=True)
    prepare_demo_streets(root, IMAGE_SIZE)
    config["resume"] = unfinished(config)
    again = ", continuing where it stopped" if config.resume else ""
    print(f"training {CONFIG} in {WORK_DIR}{again}", file=sys.stderr, flush=True)
    code = train(config)
    if code == 0:
        print_summary(WORK_DIR, CONFIG, REAL_CONFIG)
    return code


if __name__ == "__main__":
    cli.run(main)
