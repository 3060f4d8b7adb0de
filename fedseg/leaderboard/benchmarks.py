"""The benchmarks: what a run must have to be compared, and which figures are compared.

A :class:`Setting` says what the rows of a table share: data, split, network, participation, rounds,
metric. A :class:`Benchmark` is a table of such rows: some columns of one setting. A setting can
have several: accuracy, accuracy under corruptions, traffic until a target.

What "the same split" means depends on what was published:

- FedDrive published its split files: clients and images must be those, by checksum.
- The papers on CIFAR drew splits of their own and did not publish them: the recipe must be the
  same (kind of partition, concentration, number of clients), whatever the seed of the draw.
- CamVid's split is this project's rule: by checksum.

A number that a source does not state cannot be compared; then its figures are shown, and nothing is
ranked against them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from fedseg.leaderboard.reference import Published, known_data, read_published
from fedseg.runs.schema import DataEntry, Results

# Class of a model -> its name in the published records.
MODELS = {
    "CNN": "cnn",
    "ResNet18GN": "resnet18_gn",
    "ResNet20GN": "resnet20_gn",
    "ResNet56": "resnet56",
    "MobileNetV2GN": "mobilenetv2_gn",
    "MNISTCNN": "cnn_course",
    "BiSeNetV2Segmentor": "bisenetv2",
}
# Data set of the records -> class of the training set, samples for training and testing.
DATASETS = {
    "cityscapes": ("CityscapesDataset", None, None),
    "idda": ("IDDADataset", None, None),
    "camvid": ("CamVidDataset", None, None),
    "cifar10": ("CIFAR10Dataset", 50_000, 10_000),
    "cifar100": ("CIFAR100Dataset", 50_000, 10_000),
    "mnist": ("MNISTDataset", 60_000, 10_000),
    "landmarks_user_160k": ("LandmarksDataset", 164_172, 19_526),
}
TITLES = {
    "cityscapes": "Cityscapes",
    "idda": "IDDA",
    "camvid": "CamVid",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "mnist": "MNIST",
    "landmarks_user_160k": "Landmarks-User-160k",
}
MODEL_TITLES = {
    "cnn": "CNN",
    "resnet18_gn": "ResNet-18",
    "resnet20_gn": "ResNet-20",
    "resnet56": "ResNet-56",
}
# How the recipes of the records are called here.
RECIPES = {
    "dirichlet": "DirichletPartition",
    "dirichlet_class": "DirichletClassPartition",
    "pam": "PachinkoPartition",
    "homogeneous": "HomogeneousPartition",
    "natural": "NaturalPartition",
}
# Options that a config may leave out.
RECIPE_DEFAULTS = {"PachinkoPartition": {"alpha": 0.1, "beta": 10.0}}
CORRUPTED_SAMPLES = 19 * 5 * 10_000  # corruptions, severities, test images
CENTRALISED = "centralised training: one client holds every image"
TO_TARGET = "rounds_to_fedavg_acc"


@dataclass(frozen=True)
class Column:
    """A figure that is compared.

    Attributes:
        key: short, unique in its table. label: for the reader.
        figure: of a run, ``<domain>/<metric>``.
        statistic: ``window``: mean over the evaluations of the last rounds; ``final``: the last
            evaluation; ``rounds_to_target``, ``traffic_to_target``: until the figure first reaches
            the benchmark's target.
        domain, metric: of the published records.
        higher: whether more is better.
        digits: printed after the point; figures that print alike share a rank.
        unit: ``%``, ``rounds``, or ``of FedAvg's``.
    """

    key: str
    label: str
    figure: str
    statistic: str
    domain: str | None
    metric: str
    higher: bool = True
    digits: int = 2
    unit: str = "%"


@dataclass(frozen=True)
class Setting:
    """What the rows of a table share.

    Attributes:
        id, title: for URLs, and for the reader.
        dataset: as the records call it.
        split: as the records describe it; ``kind`` and its options.
        recipe: partition type and options that a run's must have; empty where the split is known
            by its checksum.
        place: part of the path by which configs call the split; helps to place a run with another
            split.
        model: as the records call it.
        n_clients, clients_per_round, rounds: of the run.
        local_epochs: the usual ones; other numbers are told in the row.
        window: rounds over whose evaluations the mean is reported; None: the last evaluation is.
        evaluations: how many of them there must be.
        known: checksums of its data: ``train`` and ``test`` by domain.
        domains: test sets.
        test_steps: how test images are prepared, where that decides on what is scored; None: any.
    """

    id: str
    title: str
    dataset: str
    split: Mapping[str, Any]
    model: str
    n_clients: int
    clients_per_round: int
    rounds: int
    local_epochs: int
    recipe: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""
    window: int | None = 100
    evaluations: int = 20
    known: Mapping[str, Any] = field(default_factory=dict)
    domains: tuple[str, ...] = ("test",)
    test_steps: tuple[Mapping[str, Any], ...] | None = None


@dataclass(frozen=True)
class Benchmark:
    """A table: some figures of one setting.

    Attributes:
        id, title: as above. group: the tab that it stands in.
        setting: what its rows share.
        columns: what is compared; rows are in the order of the first.
        target: for traffic: the figure to be reached, in percent.
        official_corruptions: corruptions that were made here do not count.
        note: for the reader.
    """

    id: str
    title: str
    group: str
    setting: Setting
    columns: tuple[Column, ...]
    target: float | None = None
    official_corruptions: bool = False
    note: str = ""

    def reasons_against(self, results: Results) -> tuple[str, ...]:
        """Why a run that fits the setting does not fit this table, in words."""
        domain = self.columns[0].figure.partition("/")[0]
        if not self.official_corruptions or domain not in results.tests:
            return ()
        test = results.tests[domain]
        if test.samples != CORRUPTED_SAMPLES:
            return (f"other corruptions: {test.samples} images instead of {CORRUPTED_SAMPLES}",)
        if test.generated is None:
            return ("whether the corruptions are the official ones is not recorded",)
        if test.generated:
            return (
                f"{len(test.generated)} of the corruptions were made here, they are not the "
                "official files",
            )
        return ()

    def matches(self, record: Published) -> Column | None:
        """The column that a published cell belongs to, or None."""
        if record.variant is not None or not same_setting(record, self.setting):
            return None
        for column in self.columns:
            if (column.domain, column.metric) == (record.domain, record.metric):
                return column
        return None

    def doubt(self, record: Published) -> str | None:
        """Why nothing is ranked against a published cell here, or None."""
        setting = self.setting
        for name, value in (
            ("rounds", setting.rounds),
            ("clients_per_round", setting.clients_per_round),
            ("n_clients", setting.n_clients),
        ):
            if getattr(record, name) is None and value is not None:
                return record.doubt or f"the source does not state {name.replace('_', ' ')}"
        return record.doubt


def same_setting(record: Published, setting: Setting) -> bool:
    """Whether a published cell is of a setting; what its source does not state is no difference."""
    if record.model != setting.model or record.split is None:
        return False
    if record.dataset != setting.dataset and not (
        record.dataset is None and setting.dataset == "mnist"  # the course report's own network
    ):
        return False
    if any(setting.split.get(key, value) != value for key, value in record.split.items()):
        return False
    wanted = (setting.rounds, setting.clients_per_round, setting.n_clients)
    stated = (record.rounds, record.clients_per_round, record.n_clients)
    return all(s is None or s == w for s, w in zip(stated, wanted, strict=True))


# ---------------------------------------------------------------- comparability


def reasons_against(results: Results, setting: Setting) -> tuple[str, ...]:
    """Why a run cannot be compared in a setting, in words; empty if it can."""
    reasons = _synthetic_reasons(results, setting) or _data_reasons(results, setting)
    reasons += _split_reasons(results, setting)
    model = model_name(results)
    if model != setting.model:
        reasons.append(f"other model: {model} instead of {setting.model}")
    least, most = results.clients_per_round.min, results.clients_per_round.max
    if (least, most) != (setting.clients_per_round,) * 2:
        told = str(most) if least == most else f"{least} to {most}"
        reasons.append(
            f"other participation: {told} clients a round instead of {setting.clients_per_round}"
        )
    if results.rounds != setting.rounds:
        fewer = "fewer" if results.rounds < setting.rounds else "more"
        reasons.append(f"{fewer} rounds: {results.rounds} instead of {setting.rounds}")
    elif setting.window is not None:  # with other rounds there is another window
        reasons += _window_reasons(results, setting)
    return tuple(reasons)


def distance(results: Results, setting: Setting) -> tuple[bool, ...]:
    """How far a run is from a setting: differences, the gravest first. The least one is closest."""
    return (
        not same_split(results, setting),
        results.train.clients != setting.n_clients,
        model_name(results) != setting.model,
        results.clients_per_round.max != setting.clients_per_round,
        results.rounds != setting.rounds,
    )


def same_split(results: Results, setting: Setting) -> bool:
    """Whether a run's clients are meant to be the setting's, if not exactly they.

    Their recipe says so, or their checksum, or the path that the config calls the split by.
    """
    if setting.recipe or not setting.place:
        return not _recipe_reasons(results, setting)
    known = setting.known["train"]["partition_sha256"]
    return (
        results.train.partition_sha256 in known
        or f"/{setting.place}/" in f"/{results.train.split}/"
    )


def reasons_of_no_split(results: Results, setting: Setting) -> tuple[str, ...]:
    """Why a run cannot be compared in any setting of its data set: it has the split of none.

    Args:
        results: of the run. setting: any of the data set.
    """
    title = TITLES[setting.dataset]
    if _is_centralised(results):
        split = CENTRALISED
    elif setting.recipe and results.train.partition is None:
        split = _recipe_reasons(results, setting)[0]
    else:
        partition = dict(results.train.partition or {})
        words = [f"{results.train.clients} clients", str(partition.pop("type", ""))]
        words += [f"{k} {_short(v)}" for k, v in partition.items() if k in ("alpha", "beta")]
        split = f"other split: {', '.join(filter(None, words))}, as in no benchmark of {title}"
    return (*_synthetic_reasons(results, setting), split)


def model_name(results: Results) -> str:
    """A run's network as the records call it, or its class."""
    return MODELS.get(results.model.type, results.model.network or results.model.type)


def _synthetic_reasons(results: Results, setting: Setting) -> list[str]:
    if not results.synthetic:
        return []
    return [f"synthetic data: the images are rendered, they are not {TITLES[setting.dataset]}"]


def _data_reasons(results: Results, setting: Setting) -> list[str]:
    """Other images than the data set's."""
    _, train_samples, test_samples = DATASETS[setting.dataset]
    reasons = _entry_reasons(
        "training images", results.train, train_samples, setting.known.get("train", {})
    )
    for domain in setting.domains:
        test, words = results.tests.get(domain), f"test images ({domain})"
        if test is None:
            reasons.append(f"no test set {domain!r}")
            continue
        known = setting.known.get("test", {}).get(domain, {})
        reasons += _entry_reasons(words, test, test_samples, known)
        if setting.test_steps is not None and test.steps is None:
            reasons.append(f"how {words} were prepared is not recorded")
        elif setting.test_steps is not None and list(test.steps) != list(setting.test_steps):
            reasons.append(f"{words} are prepared in another way")
    return reasons


def _entry_reasons(
    words: str, entry: DataEntry, samples: int | None, known: Mapping[str, Any]
) -> list[str]:
    """Another number of images, or another checksum."""
    samples = known.get("samples", samples)
    if samples is not None and entry.samples != samples:
        return [f"other {words}: {entry.samples} instead of {samples}"]
    for name in ("content_sha256", "split_checksum"):
        if name in known and getattr(entry, name) is None:
            return [f"the checksum of {words} is not recorded"]
        if name in known and getattr(entry, name) not in known[name]:
            return [f"other {words}: their checksum is another"]
    return []


def _is_centralised(results: Results) -> bool:
    return (results.train.partition or {}).get("type") == "SinglePartition"


def _split_reasons(results: Results, setting: Setting) -> list[str]:
    if _is_centralised(results):
        return [CENTRALISED]
    reasons = _recipe_reasons(results, setting)
    known = setting.known.get("train", {})
    if results.train.clients != setting.n_clients:
        reasons.append(
            f"other split: {results.train.clients} clients instead of {setting.n_clients}"
        )
    elif results.train.partition_sha256 not in known.get(
        "partition_sha256", [results.train.partition_sha256]
    ):
        reasons.append("other split: its checksum is not the published one's")
    return reasons


def _recipe_reasons(results: Results, setting: Setting) -> list[str]:
    if not setting.recipe:
        return []
    partition = results.train.partition
    if partition is None:
        return ["other split: how clients were drawn is not recorded"]
    reasons = []
    partition = {**RECIPE_DEFAULTS.get(str(partition.get("type")), {}), **partition}
    for key, wanted in setting.recipe.items():
        found = partition.get(key)
        if key == "type" and found != wanted:
            return [f"other split: {found} instead of {wanted}"]
        if found != wanted:
            reasons.append(f"other split: {key} {_short(found)} instead of {_short(wanted)}")
    return reasons


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _window_reasons(results: Results, setting: Setting) -> list[str]:
    window = results.last_rounds
    if window.rounds != setting.window:
        return [
            f"other metric: the mean over the last {window.rounds} rounds instead of "
            f"{setting.window}"
        ]
    if window.evaluations < setting.evaluations:
        return [
            f"evaluations are missing: {window.evaluations} in the last {window.rounds} rounds, "
            f"at least {setting.evaluations} are needed"
        ]
    return []


# ---------------------------------------------------------------- the list


MIOU = Column("test", "mIoU", "test/mIoU", "window", "test", "miou")
ACCURACY = Column("test", "accuracy", "test/accuracy", "window", "test", "accuracy")
IDDA_COLUMNS = (
    Column("unseen", "unseen", "unseen/mIoU", "window", "unseen", "miou"),
    Column("seen", "seen standard", "seen/mIoU", "window", "seen", "miou"),
    Column(
        "seen_by_domain",
        "seen by_domain",
        "seen_by_domain/mIoU",
        "window",
        "seen_by_domain",
        "miou",
    ),
)
CAMVID_COLUMNS = tuple(
    Column(key, label, f"{key}/mIoU", "window", key, "miou")
    for key, label in (
        ("unseen_Seq05VD", "unseen Seq05VD"),
        ("unseen_0001TP", "unseen 0001TP (dusk)"),
        ("seen", "seen standard"),
        ("seen_by_domain", "seen by_domain"),
    )
)
CORRUPTED_COLUMNS = (
    Column("mean", "corrupted, mean", "corrupted/accuracy", "final", "corrupted", "accuracy"),
    Column(
        "severity_5",
        "corrupted, severity 5",
        "corrupted/accuracy_severity_5",
        "final",
        "corrupted",
        "accuracy_severity_5",
    ),
)
TARGET_COLUMNS = (
    Column(
        "rounds",
        "rounds",
        "test/accuracy",
        "rounds_to_target",
        None,
        "rounds_to_fedavg_acc",
        higher=False,
        digits=0,
        unit="rounds",
    ),
    Column(
        "traffic",
        "traffic",
        "test/accuracy",
        "traffic_to_target",
        None,
        "comm_bits_vs_fedavg",
        higher=False,
        digits=1,
        unit="of FedAvg's",
    ),
)
IDDA_STEPS = (
    {"type": "ResizeInput", "size": [512, 928]},
    {"type": "ResizeLabel", "size": [1024, 1856]},
)
DISTRIBUTIONS = {
    "uniform": "uniform clients",
    "heterogeneous": "heterogeneous clients",
    "class_imbalance": "class imbalance",
}


@cache
def benchmarks() -> tuple[Benchmark, ...]:
    """Every benchmark, in the order in which a reader sees them."""
    return (*_feddrive(), _camvid(), *_classification())


@cache
def settings() -> tuple[Setting, ...]:
    """Every setting once."""
    return tuple({b.setting.id: b.setting for b in benchmarks()}.values())


def _feddrive() -> Iterable[Benchmark]:
    base = Setting(
        id="",
        title="",
        dataset="cityscapes",
        split={},
        model="bisenetv2",
        n_clients=0,
        clients_per_round=5,
        rounds=1500,
        local_epochs=2,
    )
    for kind, words in DISTRIBUTIONS.items():
        known = known_data()[f"cityscapes_{kind}"]
        setting = replace(
            base,
            id=f"cityscapes_{kind}",
            title=f"Cityscapes, {words}",
            split={"kind": kind, "shift": None},
            place=kind,
            n_clients=known["train"]["clients"],
            known=known,
            test_steps=(),
        )
        yield _table(setting, "Cityscapes", (MIOU,))
    for shift in ("country", "rainy", "bus"):
        for kind, words in DISTRIBUTIONS.items():
            known = known_data()[f"idda_{shift}_{kind}"]
            setting = replace(
                base,
                id=f"idda_{shift}_{kind}",
                title=f"IDDA {shift}, {words}",
                dataset="idda",
                split={"kind": kind, "shift": shift},
                place=f"{kind}/{shift}",
                n_clients=known["train"]["clients"],
                known=known,
                domains=("unseen", "seen"),
                test_steps=IDDA_STEPS,
            )
            yield _table(setting, "IDDA", IDDA_COLUMNS)


def _camvid() -> Benchmark:
    known = known_data()["camvid"]
    setting = Setting(
        id="camvid",
        title="CamVid",
        dataset="camvid",
        split={"kind": "camvid"},
        model="bisenetv2",
        n_clients=known["train"]["clients"],
        clients_per_round=5,
        rounds=200,
        local_epochs=2,
        window=50,
        evaluations=10,
        known=known,
        domains=("seen", "unseen_0001TP", "unseen_Seq05VD"),
        test_steps=(),
    )
    return _table(setting, "CamVid", CAMVID_COLUMNS, note="this project's: nothing is published")


def _classification() -> Iterable[Benchmark]:
    """In the papers' order within a data set: CNN, larger networks; then corruptions, traffic."""
    tables: dict[str, list[Benchmark]] = {}
    for setting in _image_settings():
        title = TITLES[setting.dataset]
        tables.setdefault(title, []).append(_table(setting, title, (ACCURACY,)))
        if setting.dataset in ("cifar10", "cifar100"):
            corrupted = replace(
                _table(setting, f"{title}-C", CORRUPTED_COLUMNS),
                id=f"{setting.id}_corrupted",
                title=setting.title.replace(title, f"{title}-C"),
                official_corruptions=True,
                note="accuracy of the final model; no published numbers are known here",
            )
            tables.setdefault(f"{title}-C", []).append(corrupted)
        target = _target(setting)
        if target is not None:
            to_target = replace(
                _table(setting, "Communication", TARGET_COLUMNS),
                id=f"{setting.id}_traffic",
                title=f"{setting.title}: until {target:g} %",
                target=target,
                note="until the accuracy that FedAvg has at the end, as FedGloSS reports it; "
                "traffic relative to that of FedAvg's whole run",
            )
            tables.setdefault("Communication", []).append(to_target)
    for found in tables.values():
        yield from found


def _image_settings() -> Iterable[Setting]:
    for dataset, alphas, rounds in (
        ("cifar10", (0, 0.05, 100), 10_000),
        ("cifar100", (0, 0.5, 1000), 20_000),
    ):
        for alpha in alphas:
            for participation in (5, 10, 20):
                yield _image_setting(dataset, alpha, "cnn", 100, participation, rounds)
        yield _image_setting(dataset, alphas[1], "resnet18_gn", 100, 10, 10_000)
        for alpha in alphas[:2]:
            yield _image_setting(dataset, alpha, "resnet20_gn", 100, 10, 10_000)
        if dataset == "cifar100":
            yield from _pachinko()
        yield from _fedalign(dataset)
    natural = {"kind": "natural"}
    for participation, rounds in ((10, 5000), (10, 3000), (50, 1300)):
        yield _recipe_setting(
            f"landmarks_c{participation}_r{rounds}",
            "landmarks_user_160k",
            natural,
            {"type": RECIPES["natural"]},
            "mobilenetv2_gn",
            (1262, participation, rounds, 5),
        )
    for alpha, rounds in ((0.1, 3), (2, 3), (0.1, 5), (0.5, 5), (1, 5), (1.5, 5), (2, 5)):
        setting = _recipe_setting(
            f"mnist_{_alpha_id(alpha)}_r{rounds}",
            "mnist",
            {"kind": "dirichlet", "alpha": alpha},
            {"type": RECIPES["dirichlet_class"], "alpha": alpha},
            "cnn_course",
            (5, 5, rounds, 20),
        )
        yield replace(setting, window=None)


def _pachinko() -> Iterable[Setting]:
    split = {"kind": "pam", "alpha": 0.1}
    recipe = {"type": RECIPES["pam"], "alpha": 0.1, "beta": 10.0}
    for model, participation, rounds in (
        ("resnet18_gn", 10, 5000),
        ("resnet18_gn", 10, 10_000),
        ("resnet18_gn", 20, 5000),
        ("resnet18_gn", 20, 10_000),
        ("resnet20_gn", 100, 10_000),
    ):
        name = f"cifar100_pam_c{participation}_r{rounds}_{model.removesuffix('_gn')}"
        numbers = (500, participation, rounds, 1)
        yield _recipe_setting(name, "cifar100", split, recipe, model, numbers)


def _fedalign(dataset: str) -> Iterable[Setting]:
    """FedAlign's: 16 to 64 clients, 20 local epochs, each class split by Dir(alpha)."""
    cases: list[tuple[float | None, int, int, int]] = [(0.5, 16, 16, 25), (0.5, 64, 16, 100)]
    if dataset == "cifar100":
        cases += [(0.5, 32, 32, 25), (0.5, 64, 64, 25), (0.5, 64, 16, 25)]
        cases += [(0.1, 16, 16, 25), (2.5, 16, 16, 25), (None, 16, 16, 25)]
    for alpha, clients, participation, rounds in cases:
        split: dict[str, Any] = {"kind": "homogeneous"}
        recipe: dict[str, Any] = {"type": RECIPES["homogeneous"]}
        if alpha is not None:
            split = {"kind": "dirichlet", "alpha": alpha}
            recipe = {"type": RECIPES["dirichlet_class"], "alpha": alpha}
        name = f"{dataset}_{_alpha_id(alpha)}_k{clients}_c{participation}_r{rounds}_resnet56"
        numbers = (clients, participation, rounds, 20)
        setting = _recipe_setting(name, dataset, split, recipe, "resnet56", numbers)
        yield replace(setting, window=None)


def _image_setting(
    dataset: str, alpha: float, model: str, clients: int, participation: int, rounds: int
) -> Setting:
    return _recipe_setting(
        f"{dataset}_{_alpha_id(alpha)}_c{participation}_{model.removesuffix('_gn')}",
        dataset,
        {"kind": "dirichlet", "alpha": alpha},
        {"type": RECIPES["dirichlet"], "alpha": alpha},
        model,
        (clients, participation, rounds, 1),
    )


def _recipe_setting(
    id_: str,
    dataset: str,
    split: Mapping[str, Any],
    recipe: Mapping[str, Any],
    model: str,
    numbers: tuple[int, int, int, int],
) -> Setting:
    """A setting without published split files.

    Args:
        numbers: clients, clients a round, rounds, local epochs.
    """
    clients, participation, rounds, epochs = numbers
    parts = [TITLES[dataset], _split_title(split)]
    if model in MODEL_TITLES:
        parts.append(MODEL_TITLES[model])
    parts.append(f"{participation} of {clients} clients")
    parts.append(f"{rounds:,} rounds")
    return Setting(
        id=id_,
        title=", ".join(part for part in parts if part),
        dataset=dataset,
        split=split,
        model=model,
        n_clients=clients,
        clients_per_round=participation,
        rounds=rounds,
        local_epochs=epochs,
        recipe=recipe,
        known=known_data().get(dataset, {}),
    )


def _split_title(split: Mapping[str, Any]) -> str:
    if split["kind"] == "dirichlet":
        return f"alpha {split['alpha']:g}"
    return {"pam": "PAM", "homogeneous": "homogeneous"}.get(split["kind"], "")


def _alpha_id(alpha: float | None) -> str:
    return "homogeneous" if alpha is None else f"a{alpha:g}".replace(".", "")


def _table(setting: Setting, group: str, columns: tuple[Column, ...], note: str = "") -> Benchmark:
    if setting.window is None:
        columns = tuple(replace(column, statistic="final") for column in columns)
    return Benchmark(setting.id, setting.title, group, setting, columns, note=note)


def _target(setting: Setting) -> float | None:
    """FedAvg's accuracy at the end, where a paper tells how long others take to reach it."""
    cells = [r for r in read_published() if r.variant is None and same_setting(r, setting)]
    papers = {r.paper for r in cells if r.metric == TO_TARGET}
    found = [
        r.value
        for r in cells
        if r.paper in papers and r.metric == "accuracy" and r.doubt is None
        if (r.algorithm, r.averaging, r.augmentation) == ("fedavg", None, None)
    ]
    return found[0] if found else None
