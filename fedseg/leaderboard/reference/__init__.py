"""Published numbers with their sources, and checksums of known data.

The JSON files beside this one were made by ``data_prep/reference_numbers.py`` from transcriptions
of the papers' tables, one record a cell. Where digits were damaged, a record says so.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import Any

PAPERS = ("feddrive", "fedsam", "fedgloss", "wima", "fedalign", "course")


@dataclass(frozen=True)
class Published:
    """A cell of a published table.

    Attributes:
        paper: how the paper is called here, such as ``"ECCV22"``. title: its full title.
        table: such as ``"Table 2"``.
        dataset: None where the source names none.
        split: ``kind`` with its options (``alpha``, ``shift``); None for centralised training.
        model, algorithm, averaging, server_opt, bn, augmentation: the method, in lower case.
        n_clients, clients_per_round, rounds, local_epochs: None where they are not stated.
        domain: ``test``, ``seen`` (BatchNorm by the test batch with SiloBN), ``seen_by_domain``,
            ``unseen``; None where a figure is of none.
        metric: ``miou``, ``accuracy``, ``rounds_to_fedavg_acc`` and others.
        value, std: as printed; percentages for mIoU and accuracy.
        confident: the digits could be read with certainty.
        variant: what sets a run apart from the paper's default.
        status: why there is no value: ``no_convergence``, ``not_reached``.
        approx: the source says "about". conflict: it contradicts itself elsewhere.
        comm_cost: bits a round relative to FedAvg.
        note: of the transcription.
    """

    paper: str
    title: str
    table: str
    split: dict[str, Any] | None
    algorithm: str
    model: str
    metric: str
    value: float | None
    confident: bool
    dataset: str | None = None
    averaging: str | None = None
    server_opt: str | None = None
    bn: str | None = None
    augmentation: str | None = None
    n_clients: int | None = None
    clients_per_round: int | None = None
    rounds: int | None = None
    local_epochs: int | None = None
    domain: str | None = None
    std: float | None = None
    variant: str | None = None
    status: str | None = None
    approx: bool = False
    conflict: bool = False
    comm_cost: int | None = None
    note: str | None = None

    @property
    def doubt(self) -> str | None:
        """Why nothing is ranked against this number; None if nothing speaks against it."""
        if not self.confident:
            return self.note or "digits damaged in the text that was read"
        if self.dataset is None:
            return "the source does not name the data set"
        if self.conflict:
            return self.note or "the source contradicts itself"
        if self.approx:
            return "the source gives it as about this much"
        return None


@cache
def read_published() -> tuple[Published, ...]:
    """Every published number, paper by paper, in the order of their tables."""
    found = []
    known = {one.name for one in fields(Published)}
    for name in PAPERS:
        content = read_json(f"{name}.json")
        for record in content["records"]:
            record = {"split": None, "value": None, **record}
            assert set(record) <= known, (name, record)
            found.append(Published(paper=content["key"], title=content["paper"], **record))
    return tuple(found)


@cache
def known_data() -> Mapping[str, Any]:
    """Checksums of published splits and data by benchmark; see ``known_data.json``."""
    return read_json("known_data.json")


def read_json(name: str) -> Any:
    return json.loads(resources.files(__name__).joinpath(name).read_text(encoding="utf-8"))
