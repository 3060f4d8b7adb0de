"""Demo: python tools/demo.py. Trains FedAvg and FedASAM + SWA + SiloBN on rendered streets.

Clients see clear weather; a table and a picture compare the two on unseen rain. It takes minutes
on two CPU cores. Stopped (Ctrl-C) and started again, it continues.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from fedseg import cli

ROOT = Path(__file__).resolve().parents[1]
SETTING = Path("configs/settings/demo_weather.py")
METHODS = (("fedavg",), ("silobn", "fedasam", "swa"))
WORK_DIR = Path("work_dirs/demo")
HEAD = 48  # pixels above the predictions, for the methods' names
REAL_CONFIG = Path("configs/idda_rainy_silobn_fedasam_swa.py")  # the same on the real images


def main() -> int:
    argparse.ArgumentParser(description=__doc__.split(".", 1)[1].strip()).parse_args()
    from fedseg.data_prep.demo_streets import FOLDER, START, prepare_demo_streets
    from fedseg.leaderboard.sweep import show_sweep
    from fedseg.runner.sweep import plan_sweep

    os.chdir(ROOT)  # the configs' data root is relative to it
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the two runs have a core each
    print(f"street scenes in {FOLDER}", file=sys.stderr, flush=True)
    prepare_demo_streets()
    jobs = plan_sweep([SETTING], METHODS, [0], options=START, root=WORK_DIR)
    print(f"training two methods of {SETTING}", file=sys.stderr, flush=True)
    if code := show_sweep(jobs, len(jobs)):
        return code
    runs = [job.work_dir for job in jobs]
    print("\nfrom clear weather to rain, mean over the last evaluations:")
    for run in runs:
        print(f"  {gap(run)}")
    print(f"\npredictions of both, in clear weather and in rain:\n  {draw_both(runs)}")
    print(f"\nevery difference between the two\n  {cli.program()} compare {runs[0]} {runs[1]}")
    print(f"\nwith the real images in data/idda\n  {cli.program()} prepare idda")
    print(f"  {cli.program()} train {REAL_CONFIG}")
    return 0


def gap(run: Path) -> str:
    """The loss of a run in rain, in words."""
    from fedseg.runs.schema import FILE_NAME, read_results

    results = read_results(run / FILE_NAME)
    seen, unseen = (results.last_rounds.mean[f"{domain}/mIoU"] for domain in ("seen", "unseen"))
    return f"{label(run)}: mIoU {seen:.1f} to {unseen:.1f}, a loss of {seen - unseen:.1f} points"


def label(run: Path) -> str:
    """The method of a run."""
    from fedseg.leaderboard.methods import method_of_results
    from fedseg.runs.schema import FILE_NAME, read_results

    results = read_results(run / FILE_NAME)
    return method_of_results(results, results.local_epochs).label


def draw_both(runs: Sequence[Path]) -> Path:
    """The runs' pictures of one clear and one rainy image, a column for each run."""
    from PIL import Image, ImageDraw

    cells = []
    for domain in ("seen", "unseen"):
        files = [sorted((run / "pictures" / domain).glob("*.png"))[0] for run in runs]
        cells.append([Image.open(file).convert("RGB") for file in files])
    width = max(cell.width for row in cells for cell in row)
    heights = [max(cell.height for cell in row) for row in cells]
    sheet = Image.new("RGB", (width * len(runs), HEAD + sum(heights)), "white")
    for column, run in enumerate(runs):
        ImageDraw.Draw(sheet).text((column * width + 20, 8), label(run), "black", font_size=30)
    for number, row in enumerate(cells):
        for column, cell in enumerate(row):
            sheet.paste(cell, (column * width, HEAD + sum(heights[:number])))
    path = WORK_DIR / "predictions.png"
    sheet.save(path)
    return path


if __name__ == "__main__":
    cli.run(main)
