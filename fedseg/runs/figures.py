"""What the history of a run comes to: curves, means over the last rounds, traffic, times."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

TIMES = ("train", "aggregate", "evaluate")


def summarize(history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The fields of ``results.json`` that come from the history."""
    participants = [len(record["participants"]) for record in history] or [0]
    return {
        "completed_rounds": history[-1]["round"] if history else 0,
        "clients_per_round": {"min": min(participants), "max": max(participants)},
        "communication": {
            name: sum(record[name] for record in history) for name in ("bytes_down", "bytes_up")
        },
        "rejected_updates": sum(len(record["rejected"]) for record in history),
        "seconds": {n: sum(r["seconds"].get(n, 0.0) for r in history) for n in TIMES},
        "curves": draw_curves(history),
    }


def draw_curves(history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The fields of :class:`fedseg.runs.schema.Curves`, over the evaluated rounds."""
    rounds, totals, losses, metrics = [], [], [], []
    total, recent = 0, []
    for record in history:
        total += record["bytes_down"] + record["bytes_up"]
        if record.get("loss") is not None:
            recent.append(record["loss"])
        if "metrics" in record:
            rounds.append(record["round"])
            totals.append(total)
            losses.append(statistics.fmean(recent) if recent else None)
            metrics.append(record["metrics"])
            recent = []
    names = dict.fromkeys(name for evaluated in metrics for name in evaluated)
    return {
        "rounds": rounds,
        "bytes": totals,
        "loss": losses,
        "figures": {name: [evaluated.get(name) for evaluated in metrics] for name in names},
    }


def average_curves(curves: Any, rounds: int, window: int) -> dict[str, Any]:
    """The last evaluated round, and the means over the evaluations of the last ``window`` rounds.

    Fields of :class:`fedseg.runs.schema.Results`. Deviations are those of the population of
    evaluations (not divided by n-1).
    """
    places = [n for n, round_ in enumerate(curves.rounds) if round_ > rounds - window]
    values = {
        name: [column[n] for n in places if column[n] is not None]
        for name, column in sorted(curves.figures.items())
    }
    return {
        "final_round": curves.rounds[-1] if curves.rounds else None,
        "last_rounds": {
            "rounds": min(window, rounds),
            "evaluations": len(places),
            "mean": {name: statistics.fmean(column) for name, column in values.items() if column},
            "std": {name: statistics.pstdev(column) for name, column in values.items() if column},
        },
    }
