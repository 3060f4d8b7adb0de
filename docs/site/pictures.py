"""Makes the pictures of the documentation anew, each from runs that it names: ``make pictures``.

    python docs/site/pictures.py [PICTURE ...] [--runs DIR]

Runs on rendered images are trained here, in ``build/pictures``; those in ``docs/runs`` are shipped.
Pictures of runs on real images need these runs, in ``--runs`` under the names that docs/results.md
and docs/flatness.md give them; without them the picture stays as it is, and the output says so.
"""

import argparse
import lzma
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from page_screenshots import take_screenshots
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
BUILD = ROOT / "build" / "pictures"
METHODS = ("avg", "asam", "asam_swa", "avg_swa", "asam_wima", "gloss_sgd")
# picture -> the runs that it shows, and the picture in the first one's folder or in compare's
OF_RUNS = {
    "cifar10_a005_curves.png": (
        [f"cifar10_a005_{name}" for name in ("fedavg_wima", "fedasam", "fedasam_swa")],
        "compare/curves.png",
    ),
    "cifar10_a005_algorithms_curves.png": (
        [f"cifar10_a005_{n}" for n in ("fedavg", "feddyn", "fedcm", "mime", "fedsmoo")]
        + ["cifar10_a005_fedgloss_sam"],
        "compare/trends.png",
    ),
    **{
        f"{name}_curves.png": ([name], "pictures/curves.png")
        for name in ("camvid_fedavg", "camvid_silobn_fedasam_swa")
    },
    "flatness_line.png": (["landscape_line"], "landscape.png"),
    "flatness_plane.png": (["landscape_plane"], "landscape.png"),
    "flatness_random.png": (["landscape_random"], "landscape.png"),
    "flatness_camvid_line.png": (["landscape_camvid_line"], "landscape.png"),
    "flatness_camvid_random.png": (["landscape_camvid_random"], "landscape.png"),
    "flatness_spectra.png": (["curvature"], "spectra.png"),
}


def fedseg(*words: object) -> None:
    """Run a command of fedseg in the build's folder."""
    command = [sys.executable, "-m", "fedseg", *map(str, words)]
    subprocess.run(command, cwd=BUILD, check=True, stdout=subprocess.DEVNULL)


def draw_splits() -> None:
    fedseg("prepare", "cifar", "--synthetic")
    configs = []
    for alpha in (0, 0.5, 100):
        partition = f"train_dataloader = dict(partition=dict(alpha={alpha}))"
        configs.append(BUILD / f"alpha_{str(alpha).replace('.', '_')}.py")
        configs[-1].write_text(f'setting = "demo_shapes"\n{partition}\n')
    fedseg("splits", *configs, "--out", PICTURES / "splits.png")


def draw_drift() -> None:
    script = Path(__file__).with_name("drift_picture.py")
    subprocess.run([sys.executable, script, PICTURES / "drift.png"], check=True)


def draw_streets() -> None:
    from fedseg.data_prep.streets import render_scene

    streets = [(1, 1, "A"), (2, 3, "B"), (3, 7, "J")]  # seed, town, viewpoint
    rows = [
        np.hstack([render_scene(seed, town, weather, view)[0] for seed, town, view in streets])
        for weather in ("CN", "CS", "HRN")
    ]
    Image.fromarray(np.vstack(rows)).save(PICTURES / "streets.jpg", quality=90)


def draw_predictions() -> None:
    fedseg("demo")
    with Image.open(BUILD / "work_dirs" / "demo_weather" / "predictions.png") as picture:
        picture.convert("RGB").save(PICTURES / "demo_predictions.jpg", quality=88)


def draw_comparison() -> None:
    fedseg("demo")  # renders the streets
    methods = ("--with", "fedavg", "--with", "silobn", "fedasam", "swa")
    fedseg("sweep", "demo_leaderboard", *methods, "--seeds", "0", "1", "--jobs", "2")
    folder = BUILD / "work_dirs"
    runs = [folder / f"demo_leaderboard_{name}" for name in ("fedavg", "silobn_fedasam_swa")]
    fedseg("compare", *runs, "--out", "compare")
    shutil.copy(BUILD / "compare" / "curves.png", PICTURES / "compare_curves.png")


def draw_fundus() -> None:
    """Join an image of the unseen camera by FedAvg (left) and with SiloBN (right)."""
    fedseg("prepare", "fundus", "--root", "data/demo_fundus", "--synthetic")
    fedseg("train", "demo_fundus", "--overwrite")
    fedseg("train", "demo_fundus", "--with", "silobn", "--overwrite")
    folder = BUILD / "work_dirs"
    join_fundus(folder / "demo_fundus" / "seed0", folder / "demo_fundus_silobn" / "seed0")


def join_fundus(*runs: Path) -> None:
    """Put the runs' pictures of one image side by side."""
    pictures = []
    for run in runs:
        with Image.open(run / "pictures" / "unseen" / "00009_009.png") as picture:
            pictures.append(picture.convert("RGB").reduce(2))
    Image.fromarray(np.hstack(pictures)).save(PICTURES / "fundus_unseen.jpg", quality=88)


def draw_page() -> None:
    fedseg("leaderboard", ROOT / "docs" / "runs", "--out", "board")
    take_screenshots(BUILD / "board", PICTURES)


def draw_trends() -> None:
    for name in METHODS:
        source = ROOT / "docs" / "runs" / f"cifar10_a005_fed{name}" / "seed0"
        copy = BUILD / "runs" / source.parent.name
        shutil.copytree(source, copy, dirs_exist_ok=True)
        packed = copy / "history.jsonl.xz"
        packed.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
    fedseg("compare", *(BUILD / "runs" / f"cifar10_a005_fed{n}" for n in METHODS), "--out", "long")
    shutil.copy(BUILD / "long" / "trends.png", PICTURES / "cifar10_a005_trends.png")


DRAWN = {
    "splits.png": draw_splits,
    "drift.png": draw_drift,
    "streets.jpg": draw_streets,
    "cifar10_a005_trends.png": draw_trends,
    "demo_predictions.jpg": draw_predictions,
    "compare_curves.png": draw_comparison,
    "fundus_unseen.jpg": draw_fundus,
    "leaderboard.png": draw_page,  # leaderboard_*.png
}


def draw_of_runs(name: str, folder: Path | None) -> bool:
    """Draw a picture of runs that are not made here; False if they are not there."""
    runs, file = OF_RUNS[name]
    if folder is None or not all((folder / run).is_dir() for run in runs):
        return False
    if file.startswith("compare/"):
        fedseg("compare", *((folder / run).resolve() for run in runs), "--out", "compare")
    source = BUILD / file if file.startswith("compare/") else folder / runs[0] / file
    shutil.copy(source, PICTURES / name)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*DRAWN, *OF_RUNS, []], metavar="PICTURE")
    parser.add_argument("--runs", type=Path, help="folder of runs on real images")
    arguments = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in arguments.names or (*DRAWN, *OF_RUNS):
        drawn = DRAWN[name]() or True if name in DRAWN else draw_of_runs(name, arguments.runs)
        print(name if drawn else f"{name}: left as it is, its runs are not in --runs", flush=True)


if __name__ == "__main__":
    main()
