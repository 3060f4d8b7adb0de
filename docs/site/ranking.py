"""Prints a ranking of finished runs: ``python docs/site/ranking.py DIR --reference FOLDER``.

DIR is the work dir of sweeps over one setting. A row is an experiment, its values means over the
seeds of the mean over the last evaluations; differences are taken seed by seed to the run of
``--reference``. One that a paired t-test at 95 % does not tell from zero is in parentheses. Seconds
are of short runs of the same names in ``--seconds``.
"""

import argparse
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy.stats import ttest_1samp

from fedseg.runs.run_files import read_runs
from fedseg.runs.schema import Results

Runs = Mapping[int, Results]  # of an experiment, by seed


def figure(runs: Runs, metric: str) -> dict[int, float]:
    """A metric by seed; empty for runs that do not have it."""
    means = {seed: run.last_rounds.mean for seed, run in runs.items() if run.last_rounds}
    return {seed: mean[metric] for seed, mean in means.items() if metric in mean}


def difference(runs: Runs, reference: Runs, metric: str) -> str:
    """Mean and deviation over the seeds of what differs from the reference."""
    ours, theirs = figure(runs, metric), figure(reference, metric)
    values = np.array([ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())])
    if len(values) < 2 or not values.any():
        return ""
    text = f"{values.mean():+.1f} ± {values.std(ddof=1):.1f}"
    return text if ttest_1samp(values, 0).pvalue < 0.05 else f"({text})"


def name_of(folder: Path, setting: str) -> str:
    """The methods of an experiment and the values that it sets, from its folder's name."""
    methods, *values = folder.name.removeprefix(f"{setting}_").split(",")
    options = (part.partition("=") for part in values)
    words = [f"{key.rsplit('.', 1)[-1]} {value}" for key, _, value in options]
    return f"`{methods}`" + (f", {', '.join(words)}" if words else "")


def table(folder: Path, reference: str, timed: Path | None) -> str:
    """The Markdown table of the runs below a folder, the best on unseen domains first."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for run in read_runs([timed])[0] if timed else ():
        spent = run.results.seconds["train"] + run.results.seconds["aggregate"]
        seconds[run.folder.parent.name].append(spent / run.results.completed_rounds)
    found, messages = read_runs([folder])
    experiments: dict[Path, dict[int, Results]] = defaultdict(dict)
    for run in found:
        experiments[run.folder.parent][run.results.seed] = run.results
    first = next(iter(found)).results
    domains = sorted(first.tests, reverse=True)
    base = next(runs for path, runs in experiments.items() if path.name == reference)
    metrics = [f"{domain}/mIoU" for domain in domains]
    worst = [f"{domain}/mIoU_worst10" for domain in domains if domain == "seen"]
    head = ["method"]
    for domain in domains:
        head += [domain, "difference"]
    head += ["worst tenth, seen"] * len(worst) + ["MiB a round"]
    head += ["seconds a round"] * bool(timed)
    rows = []
    for path, runs in experiments.items():
        cells = [name_of(path, first.setting or "")]
        means = [np.mean([*figure(runs, metric).values()]) for metric in metrics]
        for metric, mean in zip(metrics, means, strict=True):
            cells += [f"{mean:.1f}", difference(runs, base, metric)]
        cells += [f"{np.mean([*figure(runs, metric).values()]):.1f}" for metric in worst]
        sent = [
            (run.communication.bytes_down + run.communication.bytes_up) / run.completed_rounds
            for run in runs.values()
        ]
        cells.append(f"{np.mean(sent) / 2**20:.1f}")
        if timed:
            spent = seconds.get(path.name)
            cells.append(f"{np.mean(spent):.1f}" if spent else "")
        rows.append((-np.mean(means[: len(domains) - len(worst)]), cells))
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *(cells for _, cells in sorted(rows))]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n" + "\n".join(messages)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--reference", required=True, help="folder's name, as demo_weather_fedavg")
    parser.add_argument("--seconds", type=Path, help="work dir of short runs, timed")
    args = parser.parse_args()
    print(table(args.folder, args.reference, args.seconds))
