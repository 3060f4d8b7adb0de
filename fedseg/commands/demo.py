"""Train on rendered images within minutes: fedseg demo [NAME]."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from fedseg import cli

WORK_DIR = Path("work_dirs")
TRUST = ()  # modules that the runs' configs name
CIFAR = "data/cifar10"
REAL_IMAGES = ("prepare cifar --download", "train cifar10_a005_fedasam_swa")  # commands
CORRUPTED_IMAGES = 200  # of the test set, each under 5 corruptions x 5 severities
RARE = "class_weights"  # without it poles, lights and signs are never predicted
SETTING = "demo_weather"
METHODS = ((RARE,), ("silobn", "fedasam", "swa", RARE))
DEMOS = {
    "streets": "FedAvg and FedASAM + SWA + SiloBN from clear weather to rain; the default",
    "images": "a CNN on clients with few classes: CIFAR-10 if it is prepared, else shapes",
}


def main() -> int | None:
    parser = argparse.ArgumentParser(
        description="Train on rendered images within minutes and show the results. After Ctrl-C "
        "run the same command again to continue.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"  {name:<12} {text}" for name, text in DEMOS.items()),
    )
    parser.add_argument("name", nargs="?", choices=DEMOS, default="streets")
    cli.add_cfg_options(parser, "override config fields, for example train_cfg.max_rounds=2")
    arguments = parser.parse_args()
    if arguments.name == "images":
        return train_images(arguments.options)
    return show_streets(arguments.options)


def train_on_streets(options: Sequence[str]) -> tuple[int, list[Path]]:
    """Render the streets and train both methods; returns the exit code and the runs' folders."""
    from fedseg.commands.sweep import show_sweep
    from fedseg.data_prep.idda import DEMO, prepare_demo_streets
    from fedseg.runner.sweep import make_slots, plan_sweep

    jobs = plan_sweep([SETTING], METHODS, [0], options=options, root=WORK_DIR / SETTING)
    print(f"street scenes in {DEMO}", file=sys.stderr, flush=True)
    prepare_demo_streets()
    print(f"training {len(jobs)} runs of {SETTING}", file=sys.stderr, flush=True)
    return show_sweep(jobs, make_slots(jobs=2, threads=1)), [job.work_dir for job in jobs]


def show_streets(options: Sequence[str]) -> int:
    """The drop of two methods in rain, their predictions, and the page that compares them."""
    code, runs = train_on_streets(options)
    if code:
        return code
    print("\nfrom clear weather to rain, mean over the last evaluations:")
    for run in runs:
        print(f"  {gap(run)}")
    fedseg, best = cli.program(), runs[-1]
    print(f"\npredictions of both, in clear weather and in rain:\n  {draw_both(runs)}")
    print(f"\npage that compares them:\n  {write_page().resolve().as_uri()}")
    print(f"\ncurves of the second model, from round 0:\n  {best / 'pictures' / 'curves.png'}")
    print("\npredict a photograph of yours with the second model")
    print(f"  {fedseg} predict {best} PHOTO.jpg --out predictions")
    print(f"\ncompare the two runs\n  {fedseg} compare {runs[0]} {best}")
    print(f"\nto use the real IDDA in data/idda, run\n  {fedseg} prepare idda")
    print(f"  {fedseg} train idda_rainy_paper --with silobn fedasam swa")
    return 0


def write_page() -> Path:
    """Write the leaderboard of the runs on the streets."""
    from fedseg.leaderboard.board import build_board
    from fedseg.leaderboard.page import write_board
    from fedseg.runs.run_files import read_runs

    folder = WORK_DIR / SETTING
    return write_board(build_board(*read_runs([folder])), folder / "board")[-1]


def train_images(options: Sequence[str]) -> None:
    """Train a CNN on CIFAR-10, or on rendered images and test it on corrupted ones, too."""
    from fedseg.data_prep.cifar import prepare
    from fedseg.data_prep.demo_corruptions import write_corruptions
    from fedseg.datasets.arrays import INDEX, is_synthetic
    from fedseg.errors import Interrupted
    from fedseg.names import SHAPES
    from fedseg.report.summary import print_summary
    from fedseg.runner.experiment import load_config, prepare_config, train
    from fedseg.runner.work_dir import unfinished

    real = Path(CIFAR, INDEX).is_file() and not is_synthetic(CIFAR)
    root = Path(CIFAR if real else SHAPES)
    config = load_config("demo_cifar" if real else "demo_images", options=options)
    prepare_config(config)
    config["resume"] = unfinished(config.work_dir)
    config["overwrite"] = not config["resume"]
    print(f"images in {root}", file=sys.stderr, flush=True)
    prepare(root, synthetic=not real)
    if not real:
        folder = config.val_dataloader.corrupted.dataset.folder
        text = f"{CORRUPTED_IMAGES} test images under 5 corruptions in {root / folder}"
        print(text, file=sys.stderr, flush=True)
        write_corruptions(root, folder, CORRUPTED_IMAGES)
    again = ", continuing where it stopped" if config.resume else ""
    print(f"training in {config.work_dir}{again}", file=sys.stderr, flush=True)
    try:
        train(config)
    except Interrupted as error:
        raise Interrupted("stopped: the same command continues") from error
    print_summary(config.work_dir)
    print("\nto train on the real CIFAR-10")
    for command in REAL_IMAGES:
        print(f"  {cli.program()} {command}")


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
    """One clear and one rainy image, and what each run predicts there."""
    from fedseg.inference.predictor import opened
    from fedseg.report.figures import save_figure
    from fedseg.report.pictures import draw_comparison, predict_examples
    from fedseg.runner.build import build_evaluation

    rows: dict[str, list] = {"seen": [], "unseen": []}
    for run in runs:
        with opened(run, trust=TRUST) as model:
            loop = build_evaluation(model.runner.cfg, "test", model.runner)
            weights = model.runner.evaluated_model()
            for _, view, _, example in predict_examples(loop.domains, *weights, count=1):
                if view in rows:
                    rows[view].append(example)
            classes = model.classes
    figure = draw_comparison([*rows.values()], [label(run) for run in runs], classes)
    return save_figure(figure, runs[0].parents[1] / "predictions.png")
