"""The published numbers and known data of the leaderboard, made from the transcriptions.

    python -m data_prep.reference_numbers FOLDER

writes ``fedseg/leaderboard/reference/*.json``. FOLDER holds ``reference/results_*.yaml`` (the
papers' tables), ``feddrive.md`` (FedDrive's) and ``data/`` (split files, CamVid, CIFAR-10). What it
writes is part of the package; only a new transcription needs it again. It needs PyYAML.
"""

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from data_prep import camvid
from fedseg.errors import DataError
from fedseg.partition.split_files import Split, read_split

TARGET = Path(__file__).parents[1] / "fedseg" / "leaderboard" / "reference"

# File -> (how the transcription cites it, the paper).
PAPERS = {
    "fedsam": (
        "ECCV22",
        "Improving Generalization in Federated Learning by Seeking Flat Minima (ECCV 2022)",
    ),
    "fedalign": (
        "FedAlign",
        "Local Learning Matters: Rethinking Data Heterogeneity in Federated Learning (CVPR 2022)",
    ),
    "fedgloss": (
        "FedGloSS",
        "Beyond Local Sharpness: Communication-Efficient Global Sharpness-aware Minimization for "
        "Federated Learning",
    ),
    "wima": (
        "WIMA",
        "Window-based Model Averaging Improves Generalization in Heterogeneous Federated Learning "
        "(ICCV Workshops 2023)",
    ),
    "course": ("Course report", "Federated Learning, course report, CS6304 (LUMS)"),
}
FEDDRIVE = (
    "FedDrive",
    "FedDrive: Generalizing Federated Learning to Semantic Segmentation in Autonomous Driving "
    "(IROS 2022); FedDrive v2: an Analysis of the Impact of Label Skewness in Federated Semantic "
    "Segmentation for Autonomous Driving",
)
# Damaged text as it stood: of use while transcribing only.
LEFT_OUT = ("source", "raw")
DISTRIBUTIONS = {
    "uniform": "uniform",
    "het": "heterogeneous",
    "heterogeneous": "heterogeneous",
    "class imbalance": "class_imbalance",
}
ALGORITHMS = {"FedAvg": ("fedavg", None), "FedAvgM": ("fedavgm", None)}
ALGORITHMS["SiloBN"] = ("fedavg", "silobn")
DOMAINS = ("unseen", "seen", "seen_by_domain")
TEST_USERS = {"test_user_diff_domain": "unseen", "test_user_same_domain": "seen"}


def papers(folder: Path) -> dict[str, dict[str, Any]]:
    """File name -> content, for each of the papers that were transcribed to YAML."""
    import yaml

    found = {}
    for name, (key, title) in PAPERS.items():
        text = (folder / "reference" / f"results_{name}.yaml").read_text(encoding="utf-8")
        records = []
        for record in yaml.safe_load(text):
            kept = {k: v for k, v in record.items() if v is not None and k not in LEFT_OUT}
            records.append({"table": record["source"].removeprefix(f"{key} "), **kept})
        found[f"{name}.json"] = {"key": key, "paper": title, "records": records}
    return found


def feddrive(folder: Path) -> dict[str, Any]:
    """The content of ``feddrive.json``, from the tables of ``feddrive.md``.

    Raises:
        DataError: the page is written in another way than this reads.
    """
    path = folder / "feddrive.md"
    text = path.read_text(encoding="utf-8")
    section = text.partition("## Published mIoU")[2].partition("\n## ")[0]
    clients = {("cityscapes", None, d): n for d, n in _cityscapes_clients(text)}
    for setting, count in re.findall(r"^\| (country|rainy|bus) \| (\d+) \|", text, re.M):
        clients |= {("idda", setting, d): int(count) for d in set(DISTRIBUTIONS.values())}
    records = [*_cityscapes(section), *_idda_table(section), *_idda_sentence(section)]
    if len(clients) != 12 or len(records) < 60:
        raise DataError(f"{path}: its tables are not as this reads them")
    for record in records:
        split = record["split"]
        place = (record["dataset"], split.get("shift"), split["kind"])
        record["n_clients"] = clients[place]
    return {"key": FEDDRIVE[0], "paper": FEDDRIVE[1], "records": records}


def _cityscapes_clients(text: str) -> Iterable[tuple[str, int]]:
    for name, count in re.findall(
        r"^\| (uniform|heterogeneous|class_imbalance) \| (\d+)", text, re.M
    ):
        yield name, int(count)


def _feddrive_record(
    dataset: str, label: str, domain: str, value: str, setting: str | None = None
) -> dict[str, Any]:
    """A record from a row's label, for example ``het SiloBN CFSI``."""
    match = re.fullmatch(r"(.+?) (FedAvgM|FedAvg|SiloBN)(?: (CFSI|LAB))?", label)
    if match is None:
        raise DataError(f"feddrive.md: row {label!r} is not of a known form")
    distribution, method, style = match.groups()
    algorithm, bn = ALGORITHMS[method]
    split = {"kind": DISTRIBUTIONS[distribution]} | ({"shift": setting} if setting else {})
    record = {
        "table": "published mIoU",
        "dataset": dataset,
        "split": split,
        "model": "bisenetv2",
        "algorithm": algorithm,
        "bn": bn,
        "augmentation": style.lower() if style else None,
        "clients_per_round": 5,
        "rounds": 1500,
        "local_epochs": 2,
        "domain": domain,
        "metric": "miou",
        "value": float(value),
        "confident": True,
    }
    return {k: v for k, v in record.items() if v is not None}


def _cityscapes(section: str) -> Iterable[dict[str, Any]]:
    """``Cityscapes: uniform FedAvg 45.62; heterogeneous FedAvg 43.33 / 40.55 / 42.69, ...``"""
    sentence = section.partition("Cityscapes:")[2].partition("\n\n")[0].strip().rstrip(".")
    for part in sentence.split(";"):
        distribution = next(d for d in DISTRIBUTIONS if part.strip().startswith(f"{d} "))
        for method in part.strip().removeprefix(distribution).split(","):
            name, _, values = method.strip().partition(" ")
            styles = ("", " CFSI", " LAB")
            for style, value in zip(styles, values.split("/"), strict=False):
                label = f"{distribution} {name}{style}"
                yield _feddrive_record("cityscapes", label, "test", value)


def _idda_table(section: str) -> Iterable[dict[str, Any]]:
    rows = [line.strip("| ").split("|") for line in section.splitlines() if line.startswith("|")]
    settings = [cell.strip() for cell in rows[0][1:]]
    for label, *cells in rows[2:]:
        label = label.partition(":")[0].strip()
        for setting, cell in zip(settings, cells, strict=True):
            for domain, value in zip(DOMAINS, cell.split(","), strict=False):
                yield _feddrive_record("idda", label, domain, value, setting)


def _idda_sentence(section: str) -> Iterable[dict[str, Any]]:
    """``FedAvgM, uniform country: 55.47, 71.27; het country: 42.42, 44.38.``"""
    sentence = section.partition("\nFedAvgM, ")[2].partition("\n")[0].rstrip(".")
    for part in sentence.split(";"):
        place, values = part.strip().split(":")
        distribution, setting = place.split()
        for domain, value in zip(DOMAINS, values.split(","), strict=False):
            yield _feddrive_record("idda", f"{distribution} FedAvgM", domain, value, setting)


# ---------------------------------------------------------------- known data


def partition_checksum(users: Mapping[str, Iterable[str]]) -> str:
    """SHA-256 over clients and their images, as a run computes it for its training data.

    Args:
        users: client -> paths below the data root.
    """
    digest = hashlib.sha256()
    for user, names in users.items():
        digest.update(json.dumps([user, list(names)]).encode())
    return digest.hexdigest()


def known_data(folder: Path) -> dict[str, Any]:
    """The content of ``known_data.json``: checksums of published splits and data.

    For each benchmark: ``train`` with clients, samples and ``partition_sha256``, or with
    ``content_sha256``; ``test`` by domain with samples and ``split_checksum`` or
    ``content_sha256``. A checksum is a list of the ones that count.
    """
    splits = folder / "data" / "feddrive_splits"
    known: dict[str, Any] = {}
    for distribution in ("uniform", "heterogeneous", "class_imbalance"):
        place = splits / "cityscapes" / "data" / distribution
        known[f"cityscapes_{distribution}"] = _entry(
            [(read_split(place / "train"), read_split(place / "test"))],
            "leftImg8bit/",
            {"test_user": "test"},
        )
        for setting in ("country", "rainy", "bus"):
            place = splits / "idda" / "data" / distribution / setting
            known[f"idda_{setting}_{distribution}"] = _entry(
                [(read_split(place / "train"), read_split(place / "test"))],
                "IDDAsmall/",
                TEST_USERS,
            )
    train, test = camvid.build(camvid.verify(folder / "data" / "camvid"))
    forms = [tuple(_renamed(split, form) for split in (train, test)) for form in (".png", ".jpg")]
    users = {"test_user_0001TP": "unseen_0001TP", "test_user_Seq05VD": "unseen_Seq05VD"}
    users["test_user_same_domain"] = "seen"
    known["camvid"] = _entry(forms, "", users)
    known["cifar10"] = _cifar10(folder / "data" / "cifar10")
    return known


def _entry(pairs: list[tuple[Split, Split]], root: str, users: Mapping[str, str]) -> dict[str, Any]:
    """Checksums of a split in each of its forms."""
    train, test = pairs[0]
    paths = [{u: [root + x for x, _ in s] for u, s in pair[0].users.items()} for pair in pairs]
    return {
        "train": {
            "clients": len(train.users),
            "samples": len(train),
            "partition_sha256": [partition_checksum(names) for names in paths],
        },
        "test": {
            domain: {
                "samples": len(test.users[user]),
                "split_checksum": [pair[1].checksum for pair in pairs],
            }
            for user, domain in users.items()
        },
    }


def _renamed(split: Split, suffix: str) -> Split:
    """The split with images of another format: labels stay PNG."""
    return Split(
        {
            user: [(str(Path(x).with_suffix(suffix).as_posix()), y) for x, y in samples]
            for user, samples in split.users.items()
        }
    )


def _cifar10(folder: Path) -> dict[str, Any]:
    """Content of CIFAR-10, from one mosaic a class."""
    import numpy as np

    from data_prep.cifar import CLASSES_10
    from fedseg.datasets.arrays import content_checksum
    from fedseg.datasets.images import read_image

    found = {}
    for split in ("train", "test"):
        images, labels = [], []
        for label, name in enumerate(CLASSES_10):
            mosaic = read_image(str(folder / split / f"{name}.webp"))
            tiles = _tiles(mosaic, 5000 if split == "train" else 1000)
            images.append(tiles)
            labels += [label] * len(tiles)
        digest = content_checksum(np.concatenate(images), np.array(labels))
        found[split] = {"samples": len(labels), "content_sha256": [digest]}
    return {"train": found["train"], "test": {"test": found["test"]}}


def _tiles(mosaic: Any, count: int) -> Any:
    """The 32x32 images of a mosaic, row by row."""
    rows, columns = mosaic.shape[0] // 32, mosaic.shape[1] // 32
    tiles = mosaic.reshape(rows, 32, columns, 32, 3).swapaxes(1, 2).reshape(-1, 32, 32, 3)
    return tiles[:count]


# ---------------------------------------------------------------- files


def files(folder: Path) -> dict[str, str]:
    """Every file of the package's reference folder and its text, one record a line."""
    content = {**papers(folder), "feddrive.json": feddrive(folder)}
    texts = {}
    for name, one in content.items():
        lines = ",\n".join(json.dumps(record, ensure_ascii=False) for record in one["records"])
        head = json.dumps({"key": one["key"], "paper": one["paper"]}, ensure_ascii=False)
        texts[name] = f'{head[:-1]}, "records": [\n{lines}\n]}}\n'
    texts["known_data.json"] = json.dumps(known_data(folder), indent=1) + "\n"
    return texts


def main() -> None:
    for name, text in files(Path(sys.argv[1])).items():
        (TARGET / name).write_text(text, encoding="utf-8")
        print(TARGET / name)


if __name__ == "__main__":
    main()
