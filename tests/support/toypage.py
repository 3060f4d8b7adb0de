"""A folder of runs for tests of the leaderboard's page: good, hostile and broken ones."""

import json
from pathlib import Path

import numpy as np
import toyresults
from PIL import Image
from toyresults import CIFAR, RAINY, cifar

TARGET = f"{CIFAR}_traffic"
HOSTILE = """</script><script>window.hacked = 1</script><img src=x onerror="hacked=1">'"&amp;<b>"""
CLASSES = {"road": 91.25, "sky": 80.5, "person": None, HOSTILE: 0.0}


def metrics(unseen: float) -> dict[str, float]:
    return {"unseen/mIoU": unseen, "seen/mIoU": unseen + 9}


def with_classes(content: dict) -> dict:
    for domain in content["final"].values():
        domain["IoU"] = CLASSES
    return content


def write_runs(root: Path) -> Path:
    """Write the runs below a folder; returns it.

    Comparable: ``fedavg`` (two seeds), ``fedprox``, each in IDDA's rainy setting, and ``cifar``.
    Apart: ``synthetic`` (two seeds, with classes and pictures), ``hostile``, ``corrupted`` (with
    accuracy under corruptions). Broken: ``damaged``, ``foreign``, ``newer``,
    ``first`` and ``second``, ``stopped`` and ``cut``.
    """
    for seed in (0, 1):
        content = toyresults.results(RAINY, metrics(50.0 + seed), seed=seed, year=2023 + seed)
        toyresults.write(root / f"fedavg_{seed}", content)
        content = toyresults.synthetic(
            toyresults.results(RAINY, metrics(20.0 + seed), seed=seed, name="rendered")
        )
        toyresults.write(root / f"synthetic_{seed}", with_classes(content))
    write_pictures(root / "synthetic_0" / "pictures")
    other = {"name": "prox", "experiment_sha256": "a" * 64, "algorithm": {"type": "FedProx"}}
    content = toyresults.results(RAINY, metrics(48.0), **other)
    content["config"]["note"] = HOSTILE
    toyresults.write(root / "fedprox", content)
    toyresults.write(root / "cifar", cifar(64.0))

    content = toyresults.synthetic(toyresults.results(RAINY, metrics(10.0), name="hostile"))
    content = toyresults.changed(content, experiment_sha256="b" * 64, algorithm={"type": HOSTILE})
    toyresults.write(root / "hostile", with_classes(content))

    content = cifar(30.0, rounds=10, completed_rounds=10)
    content |= {"name": "corrupted", "experiment_sha256": "c" * 64}
    content["final"]["corrupted"] = {"accuracy": 21.0, "corruptions": {"frost": [30.0, None, 9.5]}}
    toyresults.write(root / "corrupted", content)
    _write_broken(root)
    return root


def _write_broken(root: Path) -> None:
    good = toyresults.results(RAINY, metrics(50.0))
    for name, text in {
        "damaged": "{",
        "foreign": '{"accuracy": 1}',
        "newer": json.dumps(good | {"schema_version": 99}),
    }.items():
        (root / name).mkdir()
        (root / name / "results.json").write_text(text)
    for name in ("first", "second"):
        toyresults.write(root / name, {**good, "experiment_sha256": "f" * 64})
    toyresults.write(root / "stopped", good | {"completed_rounds": 700, "seed": 5})
    (root / "cut").mkdir()
    (root / "cut" / "history.jsonl").write_text("{}")


BROKEN = {
    "damaged": "is not readable",
    "foreign": "is not a results.json of fedseg",
    "newer": "schema_version: must be 5, not 99",
    "second": "none of them counts",
    "stopped": "the run is not finished, it has 700 of 1600 rounds",
    "cut": "the run is not finished, it has no results.json",
}
"""Folder -> what the board says of it."""


def write_pictures(folder: Path) -> None:
    """Two predictions, a chart, which is none, and a file that is no picture."""
    for domain in ("seen", "unseen"):
        (folder / domain).mkdir(parents=True)
        pixels = np.full((30, 40, 3), 200 if domain == "seen" else 90, np.uint8)
        Image.fromarray(pixels).save(folder / domain / "00001_image.png")
    Image.new("RGB", (10, 10)).save(folder / "curves.png")
    (folder / "seen" / "00002_image.png").write_text("<script>window.hacked = 1</script>")
