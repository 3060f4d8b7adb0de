"""Keeps the facts in docs/algorithms.md true: ``python docs/site/algorithm_facts.py`` writes them.

Between ``<!-- facts: NAME -->`` and ``<!-- end -->`` the program speaks for itself: settings of a
method's config, what a rehearsed round of it sends and keeps, and published results from the
package's data. A test compares the page with this output.
"""

import re
import sys
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "algorithms.md"
MARKED = re.compile(r"(<!-- (facts|overview): ?([\w+]*) -->\n).*?(<!-- end -->)", re.DOTALL)
OVERVIEW = (
    "| method | `--with` | gradients per step | vectors down, up | a client keeps |\n"
    "|---|---|---|---|---|"
)
PUBLISHED = "| benchmark | result | FedAvg there | source |\n|---|---|---|---|"
OF_FEDAVG = "| benchmark | result | source |\n|---|---|---|"
# The benchmarks whose published results the page shows; the leaderboard has all of them.
BENCHMARKS = (
    "cifar10_a005_c5_cnn",
    "cifar100_a05_c5_cnn",
    "cifar10_a005_c10_resnet20",
    "cifar100_a05_c10_resnet20",
    "cifar100_a05_k16_c16_r25_resnet56",
    "cityscapes_heterogeneous",
    "cityscapes_heterogeneous_paper",
    "idda_rainy_heterogeneous",
    "idda_rainy_heterogeneous_paper",
)


@dataclass(frozen=True)
class Entry:
    """A method of the page.

    Attributes:
        setting: a setting of ``configs/settings``. methods: what is merged over it.
        settings: the keys that make the method.
        changes: overrides, as on the command line, where no experiment has it.
        record: what its published results are filed under: fields of
            :class:`fedseg.leaderboard.methods.Method`.
        rehearse: whether a round is rehearsed (not where it is FedAvg's).
    """

    setting: str
    methods: tuple[str, ...]
    settings: tuple[str, ...]
    record: Mapping[str, str] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    rehearse: bool = True


def _cifar(method: str, algorithm: str = "", *settings: str, **more: Any) -> Entry:
    record = {"algorithm": algorithm or method}
    return Entry("cifar10_a005", (method,), settings or ("algorithm",), record, **more)


def _server(kind: str) -> Entry:
    return Entry("cifar10_a005", (f"fed{kind}",), ("algorithm",), {"server_opt": kind})


def _over_fedavg(method: str, settings: str, field: str) -> Entry:
    record = {"algorithm": "fedavg", field: method}
    return Entry("cifar10_a005", (method,), (settings,), record, rehearse=False)


def _resnet56(method: str, settings: str) -> Entry:
    methods = (method, "resnet56")
    return Entry("cifar10_a005", methods, (settings,), {"algorithm": method})


def _rainy(method: str, settings: str, record: Mapping[str, str]) -> Entry:
    return Entry(
        "idda_rainy", (method,), (settings,), {"algorithm": "fedavg", **record}, rehearse=False
    )


ENTRIES = {
    "FedAvg": _cifar("fedavg"),
    "FedAvgM": _cifar("fedavgm"),
    "FedAdam": _server("adam"),
    "FedYogi": _server("yogi"),
    "FedAdagrad": _server("adagrad"),
    "FedProx": _cifar("fedprox"),
    "SCAFFOLD": _cifar("scaffold"),
    "FedDyn": _cifar("feddyn"),
    "AdaBest": _cifar("adabest"),
    "FedCM": _cifar("fedcm"),
    "FedACG": _cifar("fedacg"),
    "MIME": _cifar("mime", "mime_sgdm"),
    "MIMELite": _cifar("mimelite"),
    "FedSpeed": _cifar("fedspeed"),
    "FedGamma": _cifar("fedgamma"),
    "FedSMOO": _cifar("fedsmoo"),
    "FedGloSS": _cifar("fedgloss_sam", "fedgloss_sam"),
    "NaiveFedGloSS": _cifar(
        "fedgloss_sam", "naive_fedgloss", changes={"algorithm.type": "NaiveFedGloSS"}
    ),
    "FedSAM": _cifar("fedsam", "fedsam", "optim_wrapper"),
    "FedASAM": _cifar("fedasam", "fedasam", "optim_wrapper"),
    "MOON": _cifar("moon", "moon", "local_loss"),
    "FedAlign": _resnet56("fedalign", "local_loss"),
    "GradAug": _resnet56("gradaug", "local_loss"),
    "StochDepth": _resnet56("stochdepth", "model"),
    "SWA": _over_fedavg("swa", "averaging", "averaging"),
    "WIMA": _over_fedavg("wima", "averaging", "averaging"),
    "SiloBN": _rainy("silobn", "personal", {"bn": "silobn"}),
    "FedBN": _rainy("fedbn", "personal", {"bn": "fedbn"}),
    "Mixup": _over_fedavg("mixup", "train_dataloader.transforms.-1", "augmentation"),
    "Cutout": _over_fedavg("cutout", "train_dataloader.transforms.-1", "augmentation"),
    "LAB": _rainy("lab", "train_dataloader.dataset.style", {"augmentation": "lab"}),
    "CFSI": _rainy("cfsi", "train_dataloader.dataset.style", {"augmentation": "cfsi"}),
}
# Not part of a method in the settings shown.
LEFT_OUT = {"optim_wrapper": ("optimizer", "clip_grad"), "model": ("num_classes", "weights")}


# ---------------------------------------------------------------- settings


def load(entry: Entry) -> Any:
    """The config of an entry, with its changes."""
    from fedseg.config.compose import setting_file
    from fedseg.runner.experiment import load_config

    config = load_config(setting_file(entry.setting), entry.methods, work_dir=Path("unused"))
    config.merge_from_dict(dict(entry.changes))
    return config


def settings_of(entry: Entry) -> str:
    """The keys that make the method, as a config writes them."""
    config, shown = load(entry), []
    for path in entry.settings:
        *outer, key = path.split(".")
        value: Any = config
        for part in (*outer, key):
            value = value[int(part)] if part.lstrip("-").isdigit() else value[part]
        if isinstance(value, Mapping):
            left_out = LEFT_OUT.get(path, ())
            value = {k: v for k, v in value.items() if k not in left_out}
        label = "transforms" if key.lstrip("-").isdigit() else key
        shown.append(f"`{label}={_code(value)}`")
    return ", ".join(shown)


def _code(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"dict({', '.join(f'{k}={_code(v)}' for k, v in value.items())})"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(map(_code, value))}]"
    return repr(value)


# ---------------------------------------------------------------- a rehearsed round


@dataclass(frozen=True)
class Cost:
    """What a method costs: words for the gradients per step; vectors like the model's."""

    gradients: str
    down: str
    up: str
    kept: str


def cost_of(entry: Entry, folder: Path) -> Cost:
    """Rehearse a round with a few random images, as ``tools/train.py --dry-run`` does."""
    from fedseg.runner.plan import rehearse
    from fedseg.runner.runner import FederatedRunner

    config = load(entry)
    config.work_dir, config.device = str(folder / "run"), "cpu"
    config.train_dataloader.batch_size = 2
    config.train_dataloader.partition = dict(type="HomogeneousPartition", num_clients=2)
    config.train_dataloader.dataset.data_root = str(folder)
    config.client_sampler = dict(type="UniformSampler", clients_per_round=1)
    config.val_dataloader = config.val_evaluator = config.val_cfg = None
    config.test_dataloader = config.test_evaluator = config.test_cfg = None
    config.default_hooks = dict(checkpoint=None, progress=None, pictures=None)
    runner = FederatedRunner.from_cfg(config)
    runner.build_federation()
    rehearsal = rehearse(runner.trainer, runner.server, 0)
    algorithm, size = runner.algorithm, 4 * runner.flat.num_parameters
    trained = sum(exchange.train for exchange in algorithm.exchanges)
    gradients = str(runner.optim_wrapper.passes * algorithm.exchanges[-1].gradients)
    if trained > 1:
        gradients = f"{trained} x {gradients}"
    if any(exchange.full_gradient for exchange in algorithm.exchanges):
        gradients += ", and one over all images"
    if runner.cfg.get("local_loss") is not None:
        gradients += ", and the loss"
    costs = (rehearsal.down, rehearsal.up, rehearsal.state)
    return Cost(gradients, *(f"{round(cost / size, 1):g}" for cost in costs))


def write_images(folder: Path) -> None:
    """A few random images in the place of CIFAR-10."""
    import numpy as np

    from fedseg.datasets import write_images

    rng = np.random.default_rng(0)
    train, test = (
        (rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8), np.arange(n) % 10) for n in (8, 2)
    )
    write_images(folder, "CIFAR10", list("abcdefghij"), train, test)


def overview() -> str:
    """A line for every method with a round of its own."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_images(folder)
        for title, entry in ENTRIES.items():
            if entry.rehearse:
                cost = cost_of(entry, folder)
                cells = (cost.gradients, f"{cost.down}, {cost.up}", cost.kept)
                methods = f"`{' '.join(entry.methods)}`"
                for key, value in entry.changes.items():
                    methods += f", `{key}={value}`"
                rows.append(f"| {title} | {methods} | {' | '.join(cells)} |")
    return "\n".join([OVERVIEW, *rows]) + "\n"


# ---------------------------------------------------------------- published results


def published(entry: Entry) -> str:
    """A table of published results next to FedAvg's in the same paper; empty if there is none."""
    from fedseg.leaderboard.board import build_board
    from fedseg.leaderboard.methods import Method

    fedavg = Method("fedavg").label
    method = Method(**{"algorithm": "fedavg", **entry.record}).label
    values = build_board([]).values
    first = values[(values["place"] == 0) & values["is_ranked"] & values["value"].notna()]
    lines = []
    for name in BENCHMARKS:
        table = first[first["benchmark"] == name]
        plain = table[table["method"] == fedavg].set_index("paper")["text"]
        for row in table[table["method"] == method].itertuples():
            label = row.label.removesuffix(" (%)")
            cells = [f"{row.title}: {label}", row.text]
            if method != fedavg:
                cells.append(plain.get(row.paper, ""))
            is_ours = row.kind == "reproduced"
            cells.append("[ours](results.md#published-length)" if is_ours else row.source)
            lines.append(f"| {' | '.join(cells)} |")
    head = OF_FEDAVG if method == fedavg else PUBLISHED
    return "\n".join([head, *lines]) + "\n" if lines else ""


def facts(name: str) -> str:
    """The facts of a method in Markdown."""
    entry = ENTRIES[name]
    command = f"{entry.setting} --with {' '.join(entry.methods)}"
    where = f"Over `{command}`" if entry.changes else f"`{command}`"
    text = f"\n{where}: {settings_of(entry)}\n"
    table = published(entry)
    return f"{text}\n{table}\n" if table else f"{text}\n"


def refreshed(text: str) -> str:
    """The page with every marked part made anew."""

    def make(match: re.Match) -> str:
        content = overview() if match[2] == "overview" else facts(match[3])
        return f"{match[1]}{content}{match[4]}"

    return MARKED.sub(make, text)


def main() -> None:
    warnings.filterwarnings("ignore")
    sys.path.insert(0, str(ROOT))
    PAGE.write_text(refreshed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
