"""Published numbers, the benchmarks' facts, checksums of known data.

The JSON files of the papers hold one record per cell of a table. Where digits could not be read
with certainty, a record says so.
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

PAPERS = ("feddrive", "fedsam", "fedgloss", "wima", "fedalign", "ladd", "fedseg", "course")


@dataclass(frozen=True)
class Published:
    """A cell of a published table; None is what the source does not state, or does not have."""

    paper: str  # short name of the paper, such as "ECCV22"
    title: str  # full title of the paper
    table: str  # such as "Table 2"
    split: dict[str, Any] | None  # kind, alpha, shift; None for centralized training
    algorithm: str  # in lower case, as are the other parts of the method
    model: str
    metric: str  # miou, accuracy, rounds_to_fedavg_acc and others
    value: float | None  # as printed, as is std; percentages for mIoU and accuracy
    confident: bool  # whether the digits could be read with certainty
    dataset: str | None = None
    averaging: str | None = None
    server_opt: str | None = None
    bn: str | None = None
    augmentation: str | None = None
    n_clients: int | None = None
    clients_per_round: int | None = None
    rounds: int | None = None
    local_epochs: int | None = None
    domain: str | None = None  # test, seen (SiloBN: by the test batch), seen_by_domain, unseen
    std: float | None = None
    variant: str | None = None  # what distinguishes the run from the paper's default
    status: str | None = None  # why there is no value: no_convergence, not_reached
    approx: bool = False  # whether the source says "about"
    conflict: bool = False  # whether the source contradicts itself elsewhere
    comm_cost: int | None = None  # bits a round relative to FedAvg
    note: str | None = None  # of the transcription
    year: int | None = None  # of the paper, as is url
    url: str | None = None

    @property
    def doubt(self) -> str | None:
        """Why nothing is ranked against this number, or None."""
        if not self.confident:
            return self.note or "digits damaged in the text that was read"
        if self.dataset is None:
            return "the source does not name the data set"
        if self.conflict:
            return self.note or "the source contradicts itself"
        return "the source gives it as about this much" if self.approx else None


@cache
def read_published() -> tuple[Published, ...]:
    """Every published number, paper by paper, in the order of their tables."""
    unknown = {"split": None, "value": None}
    names = {"key": "paper", "paper": "title", "year": "year", "url": "url"}
    return tuple(
        Published(
            **{new: content[old] for old, new in names.items() if old in content},
            **{**unknown, **record},
        )
        for content in (read_json(f"{name}.json") for name in PAPERS)
        for record in content["records"]
    )


@cache
def read_json(name: str) -> Any:
    """The content of a JSON file of this package, which nobody changes."""
    return json.loads(resources.files(__name__).joinpath(name).read_text(encoding="utf-8"))
