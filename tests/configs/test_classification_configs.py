"""Every classification experiment says what its name says, with the published hyper-parameters."""

import copy
import re
from itertools import product
from pathlib import Path
from typing import Any

import config_methods
import pytest
from config_methods import Method
from mmengine.config import Config

CONFIGS = Path(__file__).parents[2] / "configs"
METHODS = {
    **config_methods.METHODS,
    "fedgloss_sgd": Method("FedGloSS"),
    "fedgloss_sam": Method("FedGloSS", "SAM"),
    "sgd": Method("FedAvg"),
    "sam": Method("FedAvg", "SAM"),
    "asam": Method("FedAvg", "ASAM"),
}
NAME = re.compile(
    r"(?P<dataset>cifar10|cifar100|mnist|landmarks)"
    r"(?:_(?P<split>a\d+|c16|pam|centralized))?"
    rf"_(?P<method>{'|'.join(METHODS)})"
    r"(?:_(?P<averaging>swa|wima))?"
    r"(?:_(?P<augmentation>mixup|cutout))?"
    r"(?:_(?P<model>resnet18|resnet20|resnet56))?"
)
EXPERIMENTS = sorted(
    path.stem
    for path in CONFIGS.glob("*.py")
    if path.stem.startswith(("cifar10_", "cifar100_", "mnist_", "landmarks_"))
)
ALPHA = {"a0": 0, "a005": 0.05, "a01": 0.1, "a05": 0.5, "a1": 1, "a15": 1.5, "a2": 2}
ALPHA |= {"a100": 100, "a1000": 1000}
CLASSES = {"cifar10": 10, "cifar100": 100, "mnist": 10, "landmarks": 2028}
STATISTICS = {  # mean and std of the training images, units of 0..1
    "cifar10": ([0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]),
    "cifar100": ([0.5071, 0.4865, 0.4409], [0.2673, 0.2564, 0.2762]),
    "mnist": ([0.1307], [0.3081]),
}
PAPERS_OF_MODELS = {"resnet18": "fedgloss", "resnet20": "wima_iccvw23"}


def parts(name: str) -> dict[str, str]:
    match = NAME.fullmatch(name)
    assert match, (
        f"{name} is not <dataset>_<alpha>_<algorithm>[_<averaging>][_<augmentation>][_<model>]"
    )
    found = {part: value for part, value in match.groupdict().items() if value}
    alone = found["method"] in {"sgd", "sam", "asam"}
    assert alone == (found.get("split") == "centralized"), f"{name}: no federated algorithm"
    assert ("split" in found) == (found["dataset"] != "landmarks")
    return found


def names(transforms: list[dict[str, Any]]) -> list[str]:
    return [transform.type for transform in transforms]


def local_optimizer(config: Config) -> str:
    return config.optim_wrapper.type.removesuffix("OptimWrapper") or "SGD"


SMALL_IMAGES = [name for name in EXPERIMENTS if not name.startswith("landmarks")]


@pytest.mark.parametrize("name", SMALL_IMAGES)
def test_data_are_those_of_the_name(name, load):
    config, name_says = load(name), parts(name)
    dataset = name_says["dataset"]
    train = config.train_dataloader
    root = f"data/{dataset}"
    assert train.type == "ResidentData"
    assert train.dataset == dict(type=f"{dataset.upper()}Dataset", data_root=root, split="train")
    assert train.get("shuffle", True) and not train.get("drop_last", False)
    assert config.test_dataloader == config.val_dataloader
    assert config.val_evaluator == config.test_evaluator == dict(type="Accuracy")

    test = config.val_dataloader.test
    images = 1000 if dataset == "mnist" else 125
    assert (test.type, test.batch_size) == ("ResidentData", images)
    assert test.dataset == train.dataset | dict(split="test")
    domains = {"test"} if dataset == "mnist" else {"test", "corrupted"}
    assert set(config.val_dataloader) == domains
    if "corrupted" in domains:
        corrupted = config.val_dataloader.corrupted
        assert corrupted.type == "CorruptedData"
        assert corrupted.final_only and corrupted.optional
        assert corrupted.dataset == dict(type=f"{dataset.upper()}CDataset", data_root=root)
        assert corrupted.transforms == test.transforms


@pytest.mark.parametrize("name", SMALL_IMAGES)
def test_images_are_augmented_and_normalised(name, load):
    config, name_says = load(name), parts(name)
    dataset = name_says["dataset"]
    transforms = config.train_dataloader.transforms
    mean, std = STATISTICS[dataset]
    normalize = dict(type="Normalize", mean=mean, std=std)
    assert config.val_dataloader.test.transforms == [normalize]
    if dataset == "mnist":
        assert transforms == [normalize]
        return
    last = {
        "mixup": [dict(type="Mixup", alpha=1.0)],
        "cutout": [dict(type="Cutout", size={"cifar10": 16, "cifar100": 8}[dataset])],
    }.get(name_says.get("augmentation"), [])
    crop, flip = dict(type="RandomCrop", padding=4), dict(type="RandomFlip", prob=0.5)
    assert transforms == [crop, flip, normalize, *last]


@pytest.mark.parametrize("name", SMALL_IMAGES)
def test_clients_are_those_of_the_name(name, load):
    config, name_says = load(name), parts(name)
    split = name_says["split"]
    if split == "centralized":
        partition = dict(type="SinglePartition")
    elif split == "pam":
        partition = dict(type="PachinkoPartition", num_clients=500, alpha=0.1, beta=10.0)
    elif split == "c16":
        partition = dict(type="DirichletClassPartition", num_clients=16, alpha=0.5)
    elif name_says["dataset"] == "mnist" and split == "a0":
        partition = dict(type="DirichletPartition", num_clients=10, alpha=0)
    elif name_says["dataset"] == "mnist":
        partition = dict(type="DirichletClassPartition", num_clients=5, alpha=ALPHA[split])
    else:
        partition = dict(type="DirichletPartition", num_clients=100, alpha=ALPHA[split])
    assert config.train_dataloader.partition == partition


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name.startswith("landmarks")])
def test_landmarks_are_streamed_by_user(name, load):
    config = load(name)
    train, test = config.train_dataloader, config.val_dataloader.test
    assert train.partition == dict(type="NaturalPartition", key="users")
    for loader, split in ((train, "train"), (test, "test")):
        assert "type" not in loader  # images stay on disk
        assert (loader.dataset.type, loader.dataset.split) == ("LandmarksDataset", split)
        assert loader.dataset.data_root == "data/landmarks"
        crop = loader.dataset.pipeline[-1]
        assert (crop.get("size") or (crop.height, crop.width)) == (224, 224)
    assert len(train.dataset.pipeline) == 1
    assert config.test_dataloader == config.val_dataloader
    assert config.val_evaluator == config.test_evaluator == dict(type="Accuracy")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_model_fits_the_data(name, load):
    config, name_says = load(name), parts(name)
    dataset = name_says["dataset"]
    model = {"mnist": "MNISTCNN", "landmarks": "MobileNetV2GN"}.get(dataset, "CNN")
    if "model" in name_says:
        networks = {"resnet18": "ResNet18GN", "resnet20": "ResNet20GN", "resnet56": "ResNet56"}
        model = networks[name_says["model"]]
    assert (name_says.get("split") == "pam") <= ("model" in name_says)
    assert (config.model.type, config.model.num_classes) == (model, CLASSES[dataset])
    groups = {"MobileNetV2GN": 8, "ResNet18GN": 2, "ResNet20GN": 2}.get(model)
    assert config.model.get("groups") == groups
    assert "data_preprocessor" not in config  # the model's own would hide it
    # batched transforms normalise small images, a preprocessor the others
    assert ("data_preprocessor" in config.model) == (dataset == "landmarks")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_algorithm_is_that_of_the_name(name, load):
    config, name_says = load(name), parts(name)
    method = name_says["method"]
    local_loss = (config.get("local_loss") or {}).get("type")
    found = Method(config.algorithm.type, local_optimizer(config), local_loss)
    assert found == METHODS[method]
    if config.algorithm.type == "FedAvg":
        server = config.algorithm.server_optim
        assert (server.type, server.lr) == ("SGD", 1)
        assert server.get("momentum", 0) == (0.9 if method == "fedavgm" else 0)
    averaging = (config.get("averaging") or {}).get("type", "").lower()
    assert averaging == name_says.get("averaging", "")
    assert config.get("batchnorm") is None  # statistics are averaged, if there are any
    assert (config.client_sampler.clients_per_round == 1) == (method in {"sgd", "sam", "asam"})


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_last_hundred_rounds_are_evaluated(name, load):
    train = load(name).train_cfg
    if name.startswith(("mnist", "cifar100_c16")):  # few rounds, of which the last is reported
        assert (train.val_interval, train.val_last_rounds) == (1, 1)
        return
    assert (train.val_last_rounds, train.val_last_interval) == (100, 1)
    assert train.max_rounds // train.val_interval >= 13


def row(rows: list[dict], **wanted: Any) -> dict:
    """The only row with these values; ``train``-able ranges and notes stay in it."""
    found = [r for r in rows if all(r.get(key) == value for key, value in wanted.items())]
    assert len(found) == 1, f"{wanted}: {len(found)} rows"
    return found[0]


def certain(value: Any) -> Any:
    """The number of an entry, the literal reading if it is marked as uncertain."""
    return value["value"] if isinstance(value, dict) else value


def allows(printed: Any, value: Any) -> bool:
    """Whether a value is the printed one, or one of several that are printed."""
    printed = certain(printed)
    return value in printed if isinstance(printed, list) else value == printed


def training_row(papers: dict, name_says: dict[str, str]) -> dict:
    """The published training set-up of an experiment."""
    dataset, split = name_says["dataset"], name_says.get("split")
    if dataset == "mnist":
        algorithm = name_says["method"]
        return row(papers["course_report"]["training"], algorithm=algorithm)
    if dataset == "landmarks":
        dataset = "landmarks_user_160k"
        if "gloss" in name_says["method"]:
            return row(papers["fedgloss"]["training"], dataset=dataset)
        ours = row(papers["fedsam_eccv22"]["training"], dataset=dataset)
        if name_says.get("averaging") == "wima":
            ours = ours | row(papers["wima_iccvw23"]["training"], dataset=dataset)
        return ours
    if split == "c16":
        return row(papers["fedalign_cvpr22"]["training"], dataset=dataset)
    if name_says.get("model") == "resnet20":
        if split == "pam":
            return row(papers["wima_iccvw23"]["training"], dataset="cifar100", split="pam")
        return row(papers["wima_iccvw23"]["training"], dataset="cifar10/cifar100")
    if name_says.get("model") == "resnet18" and split != "pam":
        rows = papers["fedgloss"]["training"]
        ours = row(rows, dataset=dataset, model="resnet18_gn")
        return row(rows, dataset="cifar100", model="resnet18_gn") | ours  # CIFAR-10 has half a row
    if "gloss" in name_says["method"]:
        return row(papers["fedgloss"]["training"], dataset=dataset, model="cnn")
    split = "pam" if split == "pam" else None
    return row(papers["fedsam_eccv22"]["training"], dataset=dataset, split=split)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_training_is_the_published_one(name, load, papers):
    config, name_says = load(name), parts(name)
    if name_says["dataset"] == "mnist" and name_says["method"] == "fedavg":
        paper = row(papers["course_report"]["training"], section="1.1")
        assert ALPHA[name_says["split"]] in [*paper["alphas"], 0]
    paper = training_row(papers, name_says)
    optimizer = config.optim_wrapper.optimizer
    assert optimizer.type == "SGD"
    assert optimizer.lr == paper["client_lr"]
    if name_says.get("split") == "c16":  # "value not given": its released code has these
        paper = {**paper, "weight_decay": 1e-4, "momentum": 0.9, "batch_size": 64}
    assert optimizer.weight_decay == certain(paper.get("weight_decay", 0))
    assert optimizer.get("nesterov", False) == (name_says.get("split") == "c16")
    if "batch_size" in paper:
        assert config.train_dataloader.batch_size == paper["batch_size"]

    momentum = paper.get("client_momentum", paper.get("momentum", 0))
    if name_says["dataset"] == "mnist":
        momentum = 0  # only SCAFFOLD's row has one
    if name_says.get("split") == "pam" and name_says["method"] == "fedavgm":
        momentum = 0  # it is the server's, as WIMA says
        assert paper.get("server_momentum", paper.get("momentum")) == 0.9
    assert optimizer.momentum == momentum

    if name_says.get("split") == "centralized":
        return  # no length is published
    assert config.train_cfg.max_rounds == paper["rounds"]
    assert allows(paper.get("local_epochs", 1), config.train_cfg.local_epochs)
    clients = config.client_sampler.clients_per_round
    if "participation" in paper:
        assert clients == paper["participation"] * 500
    else:
        assert allows(paper["clients_per_round"], clients)
        first = paper["clients_per_round"]
        assert clients == (first[0] if isinstance(first, list) else first)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_radii_are_the_published_ones(name, load, papers):
    config, name_says = load(name), parts(name)
    wrapper = config.optim_wrapper
    if wrapper.type == "OptimWrapper":
        assert not wrapper.keys() & {"rho", "eta"}
        return
    if name_says["method"] in {"fedgloss_sam", "fedgamma"}:
        return  # below
    if name_says["dataset"] == "mnist":
        assert wrapper.rho == training_row(papers, name_says)["sam_rho"]
        return
    if name_says.get("model") == "resnet18" and name_says["split"] != "pam":
        grid = row(papers["fedgloss"]["search_grids"], algorithm="fedsam", param="rho")
        assert wrapper.rho in grid[f"{name_says['dataset']}_resnet18"]
        return
    table = papers["fedsam_eccv22"]["sam_asam"]
    if name_says["dataset"] == "landmarks":
        radii = row(table, dataset="landmarks_user_160k")
    elif name_says["split"] == "pam":
        radii = row(table, dataset="cifar100", split="pam")
    else:
        # centralised training has no row: that of nearly homogeneous clients
        closest = {"cifar10": 100, "cifar100": 1000}[name_says["dataset"]]
        alpha = ALPHA.get(name_says["split"], closest)
        radii = row(table, dataset=name_says["dataset"], alpha=alpha)
    if wrapper.type == "SAMOptimWrapper":
        assert wrapper.rho == radii["sam_rho"]
        return
    assert wrapper.rho == radii["asam_rho"]
    assert allows(radii["asam_eta"], wrapper.eta)
    mixup_of_pam = name_says.get("split") == "pam" and name_says.get("augmentation") == "mixup"
    assert wrapper.eta == (0 if mixup_of_pam else 0.2)


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if "fedgloss" in name])
def test_fedgloss_is_in_its_grid(name, load, papers):
    config, name_says = load(name), parts(name)
    algorithm, wrapper = config.algorithm, config.optim_wrapper
    column = "landmarks_user_160k"
    if name_says["dataset"] != "landmarks":
        column = f"{name_says['dataset']}_{name_says.get('model', 'cnn')}"
    grid = {
        r["param"]: r[column]
        for r in papers["fedgloss"]["search_grids"]
        if r["algorithm"] == "fedgloss"
    }
    assert algorithm.rho_server in grid["rho_server"]
    assert algorithm.beta in grid["beta"]
    rounds = algorithm.get("rho_rounds", 0)
    assert rounds in grid["T_s"]
    (schedule,) = papers["fedgloss"]["rho_schedule"]
    assert algorithm.get("rho0") == (schedule["rho0"] if rounds else None)
    if wrapper.type == "SAMOptimWrapper":
        assert wrapper.rho in grid["rho"]
        assert wrapper.get("rho_rounds", 0) == rounds  # the clients' radius grows as the server's
        assert wrapper.get("rho0") == algorithm.get("rho0")


# Where an algorithm's own hyper-parameters are printed: paper, table, row; what the config says of
# them; the columns of the row that allow it, their choice first and then the grid.
PRINTED = {
    "fedprox": (
        ("fedsam_eccv22", "baselines", {"algorithm": "fedprox"}),
        {"mu": ("mu", "grid")},
    ),
    "feddyn": (
        ("fedsam_eccv22", "baselines", {"algorithm": "feddyn"}),
        {"alpha": ("alpha", "grid")},
    ),
    "scaffold": (
        ("course_report", "training", {"algorithm": "scaffold"}),
        {"eta_g": ("server_lr",)},
    ),
    "fedgamma": (
        ("fedgloss", "search_grids", {"algorithm": "fedgamma", "param": "rho"}),
        {"rho": ("cifar10_cnn",)},
    ),
    "fedcm": (
        ("wima_iccvw23", "algorithms", {"algorithm": "fedcm"}),
        {"alpha": ("alpha_grid",)},
    ),
    "fedacg": (
        ("wima_iccvw23", "algorithms", {"algorithm": "fedacg"}),
        {"lam": ("lambda_grid",), "beta": ("beta_grid",)},
    ),
    "adabest": (
        ("fedsam_eccv22", "baselines", {"algorithm": "adabest", "dataset": "cifar10"}),
        {"mu": ("mu", "mu_grid"), "beta": ("beta", "beta_grid")},
    ),
    "mime": (
        ("wima_iccvw23", "algorithms", {"algorithm": "mime_sgdm"}),
        {"momentum": ("momentum",)},
    ),
    "mimelite": (
        ("wima_iccvw23", "algorithms", {"algorithm": "mimelite"}),
        {"momentum": ("momentum",), "server_lr": ("server_lr_grid",)},
    ),
}
DRIFT = [name for name in EXPERIMENTS if (m := NAME.fullmatch(name)) and m["method"] in PRINTED]


@pytest.mark.parametrize("name", DRIFT)
def test_drift_correction_is_as_printed(name, load, papers):
    config, method = load(name), parts(name)["method"]
    (paper, table, wanted), columns = PRINTED[method]
    printed = row(papers[paper][table], **wanted)
    values = dict(config.algorithm)
    if method == "feddyn":
        values["alpha"] = 1 / values["beta"]
    if method == "fedgamma":
        values["rho"] = config.optim_wrapper.rho
    if "mime" in method:
        values["server_lr"] = config.algorithm.server_optim.lr
    for value, names in columns.items():
        assert all(allows(printed[column], values[value]) for column in names)
    assert not config.algorithm.get("count_momentum")  # there is none
    assert config.optim_wrapper.optimizer.momentum == 0


# Those with a row of the FedGloSS paper's grids for each hyper-parameter.
IN_GRIDS = {
    "fedspeed": {"rho": "rho", "alpha": "alpha", "lam": "lambda"},
    "fedsmoo": {"rho": "rho", "beta": "beta"},
}


@pytest.mark.parametrize(
    "name", [n for n in EXPERIMENTS if (m := NAME.fullmatch(n)) and m["method"] in IN_GRIDS]
)
def test_own_perturbation_is_in_its_grid(name, load, papers):
    config, name_says = load(name), parts(name)
    column = f"{name_says['dataset']}_{name_says.get('model', 'cnn')}"
    for value, printed in IN_GRIDS[name_says["method"]].items():
        wanted = {"algorithm": name_says["method"], "param": printed}
        grid = row(papers["fedgloss"]["search_grids"], **wanted)[column]
        assert config.algorithm[value] in grid
    assert config.optim_wrapper.clip_grad == dict(max_norm=10)


REGULARISED = {  # the printed name of a hyper-parameter for each of a config's
    "moon": {"mu": "mu", "tau": "temperature"},
    "fedalign": {"mu": "mu", "width": "width"},
    "gradaug": {"n": "n", "mu": "mu", "width": "width_min"},
    "stochdepth": {"stochastic_depth": "keep_prob_last"},
}


@pytest.mark.parametrize(
    "name", [n for n in EXPERIMENTS if (m := NAME.fullmatch(n)) and m["method"] in REGULARISED]
)
def test_local_regulariser_is_as_printed(name, load, papers):
    config, method = load(name), parts(name)["method"]
    number = {"n": config.local_loss.n} if method == "gradaug" else {}
    printed = row(papers["fedalign_cvpr22"]["algorithms"], algorithm=method, **number)
    values = config.model if method == "stochdepth" else config.local_loss
    for value, column in REGULARISED[method].items():
        assert values[value] == printed[column]
    assert ("projection" in config.model) == (method == "moon")
    assert config.model.get("projection", (256, 256)) == (256, 256)
    # as in the released code
    clip = dict(max_norm=10) if method == "fedalign" else None
    assert config.optim_wrapper.get("clip_grad") == clip


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if "_swa" in name])
def test_swa_is_the_published_one(name, load, papers):
    config, name_says = load(name), parts(name)
    swa = config.averaging
    table = papers["fedsam_eccv22"]["swa"]
    dataset = name_says["dataset"]
    if dataset == "landmarks":
        dataset = "landmarks_user_160k"
    paper = row(table, dataset=dataset, split="pam" if name_says.get("split") == "pam" else None)
    assert (swa.cycle, swa.lr2) == (paper["cycle"], paper["lr2"])
    assert config.optim_wrapper.optimizer.lr == paper["lr1"]
    assert swa.start == 0.75  # a fraction: it holds for any number of rounds
    if not paper.get("conflict") and name_says.get("split") != "centralized":
        assert allows(paper["start_round"], swa.start * config.train_cfg.max_rounds)


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if "_wima" in name])
def test_wima_has_its_window(name, load, papers):
    name_says = parts(name)
    dataset = name_says["dataset"]
    published = {"landmarks": "landmarks_user_160k"}.get(dataset, "cifar10/cifar100")
    paper = row(papers["wima_iccvw23"]["training"], dataset=published)
    assert load(name).averaging.window == paper["window"]


@pytest.mark.parametrize(
    "name", [name for name in EXPERIMENTS if "_mixup" in name or "_cutout" in name]
)
def test_augmentation_is_the_published_one(name, load, papers):
    name_says = parts(name)
    table = papers["fedsam_eccv22"]["augmentation"]
    last = load(name).train_dataloader.transforms[-1]
    if name_says["augmentation"] == "mixup":
        assert last.alpha == row(table, augmentation="mixup")["alpha"]
    else:
        paper = row(table, augmentation="cutout", dataset=name_says["dataset"])
        assert last.size == paper["size"]


def test_the_benchmark_is_covered():
    wanted = set()
    dirichlet = [f"cifar10_{a}" for a in ("a0", "a005", "a100")]
    dirichlet += [f"cifar100_{a}" for a in ("a0", "a05", "a1000")]
    methods = ("fedavg", "fedavgm", "fedsam", "fedasam")
    for (setting, model), method in product(
        [(setting, "") for setting in dirichlet] + [("cifar100_pam", "_resnet18")], methods
    ):
        more = () if method == "fedavgm" else ("_mixup", "_cutout")
        wanted |= {f"{setting}_{method}{m}{model}" for m in ("", "_swa", "_wima", *more)}
    wanted |= {f"{s}_fedgloss_{o}" for s, o in product(dirichlet, ("sgd", "sam"))}
    for setting, method in product(
        ("cifar10_a005", "cifar100_a05"), ("fedavg", "fedsam", "fedgloss_sgd", "fedgloss_sam")
    ):
        wanted.add(f"{setting}_{method}_resnet18")
    for setting in ("cifar10_a0", "cifar10_a005", "cifar100_a0", "cifar100_a05", "cifar100_pam"):
        wanted |= {f"{setting}_fedavg_resnet20", f"{setting}_fedavg_wima_resnet20"}
    for dataset, method in product(("cifar10", "cifar100"), ("sgd", "sam", "asam")):
        wanted |= {f"{dataset}_centralized_{method}{a}" for a in ("", "_swa")}
    wanted |= {f"mnist_{a}_fedavg" for a in ("a0", "a01", "a05", "a1", "a15", "a2")}
    wanted |= {
        f"landmarks_{m}{a}" for m, a in product(("fedavg", "fedsam", "fedasam"), ("", "_swa"))
    }
    wanted |= {"landmarks_fedavg_wima", "landmarks_fedgloss_sgd", "landmarks_fedgloss_sam"}
    wanted |= {f"cifar10_a005_{method}" for method in (*PRINTED, *IN_GRIDS, "moon")}
    residual = ("fedavg", "fedalign", "gradaug", "stochdepth")
    wanted |= {f"cifar10_a005_{method}_resnet56" for method in residual}
    wanted |= {f"cifar100_c16_{method}_resnet56" for method in ("fedavg", "moon", "fedalign")}
    assert not wanted - set(EXPERIMENTS)


def test_more_clients_and_fewer_rounds_are_options(load):
    config = copy.deepcopy(load("cifar10_a005_fedasam_swa"))
    config.merge_from_dict({"client_sampler.clients_per_round": 20, "train_cfg.max_rounds": 1000})
    assert config.client_sampler == dict(type="UniformSampler", clients_per_round=20)
    assert config.averaging.start * config.train_cfg.max_rounds == 750


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_says_what_was_not_published(name, comments):
    """The comment stands in the config or in a part that it inherits."""
    comments, name_says = comments(name), parts(name)
    method, split, model = (name_says.get(k) for k in ("method", "split", "model"))
    if "gloss" in method:
        assert "within the paper's grid" in comments
    if method in IN_GRIDS:
        assert "within the FedGloSS paper's grid" in comments and "Untuned" in comments
    if method in {"fedcm", "fedacg"}:
        assert "its choice is not told" in comments and "untuned" in comments
    if "mime" in method:
        assert "the choice is not told" in comments and "untuned" in comments
    if method in {"scaffold", "fedgamma"}:
        assert "step size" in comments
    if method == "feddyn":
        assert "without the bound: this one is ours" in comments
    if method == "fedalign":
        assert "to which the published mu belongs" in comments
    if method == "gradaug":
        assert "The rest is not printed there" in comments
    if model == "resnet56":
        assert ("No paper trains ResNet56 on these clients" in comments) == (split != "c16")
        assert ("those of its released code" in comments) == (split == "c16")
    if name_says.get("averaging") == "wima" and name_says["dataset"] != "landmarks":
        assert "untuned with other networks" in comments
    if split == "centralized":
        assert "No length is published" in comments
        assert ("No radius is published" in comments) == (method != "sgd")
    if split == "pam" and model == "resnet18":
        assert "The heading over the momentum 0.9 is damaged" in comments
        assert ("The table says a start in round 15,000" in comments) == ("_swa" in name)
    if split == "pam" and model == "resnet20":
        assert "20 % of the 500 clients" in comments
    if name_says["dataset"] == "mnist":
        assert "Nor is the way in which it draws clients" in comments
        assert ("10 clients" in comments) == (split == "a0")
    if name_says["dataset"] in {"cifar10", "cifar100"} and model is None:
        assert "The exponent of the weight decay is lost" in comments
